"""The accepted stack as files that a client's team can run: services, Terraform, monitoring."""
