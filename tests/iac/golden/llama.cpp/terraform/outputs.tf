# teardown emit: llm-tiny for Example Voice; config sha256 d8b42a3a03def5a05c297508a5e39ac857eb0b79cafa823f654c83069221a521
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
