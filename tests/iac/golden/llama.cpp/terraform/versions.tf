# teardown emit: llm-tiny for Example Voice; config sha256 d8b42a3a03def5a05c297508a5e39ac857eb0b79cafa823f654c83069221a521
terraform {
  # terraform_data is part of Terraform itself: no registry, no provider download.
  required_version = ">= 1.6.0"
}
