# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
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
