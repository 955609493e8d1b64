# teardown emit: llm-tiny for Example Voice; config sha256 f02676f515b318d8da954c85fd89a571dc4fb28cbfb1efc227dc333ae589afdd
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
