# teardown emit: llm-tiny for Example Voice; config sha256 1a21195aeb9623a90468eace6a5f14b3045636593fe208a915d7dcd42b48fcc8
terraform {
  # terraform_data is part of Terraform itself: no registry, no provider download.
  required_version = ">= 1.6.0"
}
