# teardown emit: llm-tiny for Example Voice; config sha256 f02676f515b318d8da954c85fd89a571dc4fb28cbfb1efc227dc333ae589afdd
terraform {
  # terraform_data is part of Terraform itself: no registry, no provider download.
  required_version = ">= 1.6.0"
}
