# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
locals {
  service       = "llm-dummy-8b"
  config_sha256 = "4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc"
  health_path   = "/health"
  bundle        = abspath("${path.module}/..")
  is_local      = var.host == "localhost"
  connect_host  = local.is_local ? local.listen_reachable : var.host
  url_host      = strcontains(local.connect_host, ":") ? "[${local.connect_host}]" : local.connect_host
  url           = "http://${local.url_host}:${var.port}"
  listen_reachable = lookup(
    { "0.0.0.0" = "127.0.0.1", "::" = "::1" }, var.listen, var.listen
  )

  # A change of any of these replaces the installation. Destroy-time steps can read nothing else.
  installation = {
    config_sha256 = local.config_sha256
    bundle        = local.bundle
    host          = var.host
    user          = var.user
    ssh_port      = var.ssh_port
    ssh_key_path  = var.ssh_private_key_path
    ssh_host_key  = var.ssh_host_key
    ssh_timeout   = var.ssh_timeout
    listen        = var.listen
    port          = var.port
    supervisor    = var.supervisor
    install_dir   = var.install_dir
    sudo          = var.supervisor == "systemd" && var.user != "root" ? "sudo -n " : ""
    staging       = "/tmp/${local.service}-${substr(local.config_sha256, 0, 12)}"
  }
}

# Installs on this machine. Values reach the shell as variables; `exec` leaves no shell behind
# that an interrupted Terraform could not end.
resource "terraform_data" "local" {
  count            = local.is_local ? 1 : 0
  triggers_replace = local.installation
  input            = local.installation

  provisioner "local-exec" {
    command = "exec sh \"$BUNDLE/install.sh\" --supervisor \"$SUPERVISOR\" --prefix \"$PREFIX\" --host \"$LISTEN\" --port \"$PORT\" --model \"$MODEL\""
    environment = {
      BUNDLE     = self.input.bundle
      SUPERVISOR = self.input.supervisor
      PREFIX     = self.input.install_dir
      LISTEN     = self.input.listen
      PORT       = self.input.port
      MODEL      = var.model_source == "" ? "" : abspath(pathexpand(var.model_source))
    }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "exec sh \"$BUNDLE/install.sh\" --remove --supervisor \"$SUPERVISOR\" --prefix \"$PREFIX\""
    environment = {
      BUNDLE     = self.input.bundle
      SUPERVISOR = self.input.supervisor
      PREFIX     = self.input.install_dir
    }
  }
}

# Brings a model to the host, once per file; named apart so that a new configuration does not copy it again.
resource "terraform_data" "model" {
  count            = !local.is_local && var.model_source != "" ? 1 : 0
  triggers_replace = [var.host, var.install_dir, var.model_source, try(filesha256(pathexpand(var.model_source)), "")]

  connection {
    type        = "ssh"
    host        = var.host
    timeout     = var.ssh_timeout
    port        = var.ssh_port
    user        = var.user
    private_key = var.ssh_private_key_path == "" ? null : file(pathexpand(var.ssh_private_key_path))
    host_key    = var.ssh_host_key == "" ? null : var.ssh_host_key
    agent       = var.ssh_private_key_path == ""
  }

  provisioner "file" {
    source      = pathexpand(var.model_source)
    destination = "/tmp/${local.service}.model"
  }
}

# Installs on another host by SSH.
resource "terraform_data" "remote" {
  count            = local.is_local ? 0 : 1
  triggers_replace = local.installation
  input            = local.installation
  depends_on       = [terraform_data.model]

  connection {
    type        = "ssh"
    host        = self.input.host
    timeout     = self.input.ssh_timeout
    port        = self.input.ssh_port
    user        = self.input.user
    private_key = self.input.ssh_key_path == "" ? null : file(pathexpand(self.input.ssh_key_path))
    host_key    = self.input.ssh_host_key == "" ? null : self.input.ssh_host_key
    agent       = self.input.ssh_key_path == ""
  }

  provisioner "remote-exec" {
    inline = [
      "set -eu; rm -rf '${self.input.staging}'; mkdir -m 700 '${self.input.staging}'",
    ]
  }

  provisioner "file" {
    source      = "${self.input.bundle}/install.sh"
    destination = "${self.input.staging}/install.sh"
  }

  provisioner "file" {
    source      = "${self.input.bundle}/stack"
    destination = self.input.staging
  }

  provisioner "file" {
    source      = "${self.input.bundle}/rollback"
    destination = self.input.staging
  }

  provisioner "file" {
    source      = "${self.input.bundle}/systemd"
    destination = self.input.staging
  }

  provisioner "file" {
    source      = "${self.input.bundle}/supervisor"
    destination = self.input.staging
  }

  # Every value below was checked by its variable's validation and holds no quote.
  provisioner "remote-exec" {
    inline = [
      "set -eu; model=; [ ! -f '/tmp/${local.service}.model' ] || model='/tmp/${local.service}.model'; ${self.input.sudo}sh '${self.input.staging}/install.sh' --supervisor '${self.input.supervisor}' --prefix '${self.input.install_dir}' --host '${self.input.listen}' --port '${self.input.port}' --model \"$model\"; rm -f '/tmp/${local.service}.model'",
    ]
  }

  provisioner "file" {
    when        = destroy
    source      = "${self.input.bundle}/install.sh"
    destination = "/tmp/${basename(self.input.staging)}-remove.sh"
  }

  provisioner "remote-exec" {
    when = destroy
    inline = [
      "set -eu; ${self.input.sudo}sh '/tmp/${basename(self.input.staging)}-remove.sh' --remove --supervisor '${self.input.supervisor}' --prefix '${self.input.install_dir}'; rm -rf '${self.input.staging}' '/tmp/${basename(self.input.staging)}-remove.sh'",
    ]
  }
}
