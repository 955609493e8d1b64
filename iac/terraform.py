"""A Terraform root for one Linux host, by Terraform's builtin provider alone."""

from iac.deployment import Deployment
from iac.quoting import one_line
from iac.render import header, render, start_timeout_s
from teardown.records import LaunchSpec

NAMES = ("versions.tf", "variables.tf", "main.tf", "outputs.tf", "host.tftest.hcl", "README.md")


def terraform_files(deployment: Deployment, launch: LaunchSpec) -> dict[str, str]:
    """Return path below `out/` -> text of the root, its test and its page."""
    deploy = deployment.deploy
    context = {
        "header": header(deployment),
        "service": deployment.service,
        "client": one_line(deployment.client),
        "host": "localhost" if deployment.is_local else deploy.host,
        "listen": deploy.host,
        "port": deploy.port,
        "user": "root" if deployment.is_local else deploy.user,
        "install_dir": deploy.install_dir,
        "config_sha256": deployment.config_sha256,
        "release": deployment.release,
        "previous_release": deployment.previous_release,
        "health_path": launch.health_path,
        "needs_model": deployment.model_file is not None,
        "has_rollback": deployment.previous_release is not None,
        "install_timeout": f"{start_timeout_s(deployment)}s",
    }
    return {f"terraform/{name}": render(f"terraform/{name}.j2", context) for name in NAMES}
