# teardown emit: llm-tiny for Example Voice; config sha256 89fe3578bc522c967ac03ffbd6ce15d37a9bb9f116c0908533e1db20708f7632
terraform {
  # terraform_data is part of Terraform itself: no registry, no provider download.
  required_version = ">= 1.6.0"
}
