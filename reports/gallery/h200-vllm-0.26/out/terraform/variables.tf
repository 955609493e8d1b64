# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
variable "host" {
  description = "Host to install on, reached by SSH; \"localhost\" installs on this machine without SSH."
  type        = string
  default     = "localhost"

  validation {
    condition     = can(regex("^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$", var.host))
    error_message = "host must be a host name or an address."
  }
}

variable "user" {
  description = "SSH user; anyone but root needs sudo without a password for supervisor = \"systemd\"."
  type        = string
  default     = "root"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]{0,31}$", var.user))
    error_message = "user must be a Linux user name."
  }
}

variable "ssh_port" {
  description = "Port of the SSH server."
  type        = number
  default     = 22

  validation {
    condition     = var.ssh_port >= 1 && var.ssh_port <= 65535 && floor(var.ssh_port) == var.ssh_port
    error_message = "ssh_port must be a whole number from 1 to 65535."
  }
}

variable "ssh_private_key_path" {
  description = "Private key file for SSH; empty uses the SSH agent."
  type        = string
  default     = ""

  validation {
    condition     = var.ssh_private_key_path == "" ? true : fileexists(pathexpand(var.ssh_private_key_path))
    error_message = "ssh_private_key_path must be an existing file, or empty for the SSH agent."
  }
}

variable "ssh_host_key" {
  description = "Public host key as one line of known_hosts without the name, such as \"ssh-ed25519 AAAA...\"; empty accepts any key."
  type        = string
  default     = ""

  validation {
    condition     = var.ssh_host_key == "" ? true : can(regex("^(ssh-|ecdsa-)[a-z0-9-]+ [A-Za-z0-9+/=]+", var.ssh_host_key))
    error_message = "ssh_host_key must start with the key's type, such as ssh-ed25519."
  }
}

variable "ssh_timeout" {
  description = "How long to try to reach the SSH server, such as \"30s\" or \"2m\"."
  type        = string
  default     = "2m"

  validation {
    condition     = can(regex("^[1-9][0-9]*[sm]$", var.ssh_timeout))
    error_message = "ssh_timeout must be a number and s or m."
  }
}

variable "listen" {
  description = "Address that the server listens on."
  type        = string
  default     = "127.0.0.1"

  validation {
    condition     = can(regex("^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$", var.listen))
    error_message = "listen must be a host name or an address."
  }
}

variable "port" {
  description = "Port that the server listens on; below 1024 only with the unit as emitted for it."
  type        = number
  default     = 8080

  validation {
    condition     = var.port >= 1024 && var.port <= 65535 && floor(var.port) == var.port
    error_message = "port must be a whole number from 1024 to 65535."
  }
}

variable "supervisor" {
  description = "What keeps the server running: \"systemd\", or \"process\" for a host without it."
  type        = string
  default     = "systemd"

  validation {
    condition     = contains(["systemd", "process"], var.supervisor)
    error_message = "supervisor must be systemd or process."
  }
}

variable "install_dir" {
  description = "Folder on the host that holds releases, model and supervisor; its own, and absolute."
  type        = string
  default     = "/opt/llm-server"

  validation {
    condition     = can(regex("^(/[A-Za-z0-9._-]+){2,}$", var.install_dir)) && !strcontains(var.install_dir, "..")
    error_message = "install_dir must be an absolute path, at least two folders deep, of letters, digits, dot, hyphen and underscore."
  }
}

variable "model_source" {
  description = "Model file on this machine that is copied to the host; empty when the host has it already."
  type        = string
  default     = ""

  validation {
    condition     = var.model_source == "" ? true : fileexists(pathexpand(var.model_source))
    error_message = "model_source must be an existing file, or empty."
  }
}
