# teardown emit: llm-dummy-8b for Dummy 8B on one H200; config sha256 4ecf86036de522f918e02c78a5f6b4ddf099d560311a58748804682e1f027edc
terraform {
  # terraform_data is part of Terraform itself: no registry, no provider download.
  required_version = ">= 1.6.0"
}
