terraform {
  backend "s3" {
    bucket                      = "{bucket}"
    key                         = "env/terraform.tfstate"
    region                      = "us-east-1"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
    skip_metadata_api_check     = true
    skip_region_validation      = true
    skip_s3_checksum            = true
    endpoints                   = { s3 = "{endpoint}" }
  }
}

variable "hold" { default = "1" }

resource "terraform_data" "work" {
  triggers_replace = timestamp()
  provisioner "local-exec" { command = "sleep ${var.hold}" }
}
