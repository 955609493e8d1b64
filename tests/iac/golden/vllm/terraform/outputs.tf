# teardown emit: llm-tiny for Example Voice; config sha256 89fe3578bc522c967ac03ffbd6ce15d37a9bb9f116c0908533e1db20708f7632
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
