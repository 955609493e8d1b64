# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
# terraform test: plans only; nothing is installed and no host is contacted.

run "plans_this_machine" {
  command = plan

  variables {
    host       = "localhost"
    listen     = "0.0.0.0"
    port       = 8099
    supervisor = "process"
  }

  assert {
    condition     = length(terraform_data.local) == 1 && length(terraform_data.remote) == 0
    error_message = "localhost must not use SSH."
  }

  assert {
    condition     = output.url == "http://127.0.0.1:8099/v1"
    error_message = "The URL must be one that a client can connect to."
  }

  assert {
    condition     = output.config_sha256 == "4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc"
    error_message = "The hash must be that of the emitted configuration."
  }
}

run "plans_another_host_by_ssh" {
  command = plan

  variables {
    host       = "10.0.0.5"
    user       = "operator"
    port       = 8099
    supervisor = "systemd"
  }

  assert {
    condition     = length(terraform_data.local) == 0 && length(terraform_data.remote) == 1
    error_message = "Another host must be reached by SSH."
  }

  assert {
    condition     = terraform_data.remote[0].input.sudo == "sudo -n "
    error_message = "Installing a unit as an ordinary user must use sudo."
  }

  assert {
    condition     = output.health_command == "curl -gfsS http://10.0.0.5:8099/health"
    error_message = "The health command must address the host."
  }
}

run "refuses_a_host_that_is_none" {
  command = plan

  variables {
    host = "a; reboot"
  }

  expect_failures = [var.host]
}

run "refuses_a_user_that_is_none" {
  command = plan

  variables {
    user = "root; reboot"
  }

  expect_failures = [var.user]
}

run "refuses_a_port_out_of_range" {
  command = plan

  variables {
    port = 70000
  }

  expect_failures = [var.port]
}

run "refuses_an_unknown_supervisor" {
  command = plan

  variables {
    supervisor = "upstart"
  }

  expect_failures = [var.supervisor]
}

run "refuses_a_relative_install_dir" {
  command = plan

  variables {
    install_dir = "llm/server"
  }

  expect_failures = [var.install_dir]
}

run "refuses_a_shared_install_dir" {
  command = plan

  variables {
    install_dir = "/opt"
  }

  expect_failures = [var.install_dir]
}

run "refuses_a_missing_key_file" {
  command = plan

  variables {
    ssh_private_key_path = "/nonexistent/key"
  }

  expect_failures = [var.ssh_private_key_path]
}
