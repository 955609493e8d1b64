# teardown emit: llm-tiny for Example Voice; config sha256 1a21195aeb9623a90468eace6a5f14b3045636593fe208a915d7dcd42b48fcc8
output "url" {
  description = "Base URL of the OpenAI-compatible API."
  value       = "${local.url}/v1"
}

output "config_sha256" {
  description = "Hash of the configuration that is installed; every emitted file carries it."
  value       = local.config_sha256
}

output "health_command" {
  description = "Succeeds when the server is ready."
  value       = "curl -gfsS ${local.url}${local.health_path}"
}
