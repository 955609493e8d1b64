"""compose.yaml and its Dockerfile: the same releases in a container."""

from typing import Any

from iac.deployment import Deployment
from iac.quoting import compose_value, yaml_document
from iac.render import RESTART_LIMIT, header, render, start_timeout_s, stop_timeout_s
from teardown.records import LaunchSpec

HOME = "/srv/llm"
# vLLM's workers share tensors through /dev/shm; Docker's 64 MiB are too few (vLLM's docs, 2026-10)
VLLM_SHM = "8gb"


def compose_files(deployment: Deployment, launch: LaunchSpec) -> dict[str, str]:
    """Return path below `out/` -> text; nothing for a program that no package installs."""
    if not is_buildable(launch):
        return {}
    context = {
        "header": header(deployment),
        "image": "python:3.11" if deployment.stack.launcher == "vllm" else "python:3.11-slim",
        "home": HOME,
        "release": deployment.release,
        "previous_release": deployment.previous_release,
        "port": deployment.deploy.port,
        "health_path": launch.health_path,
        "start_timeout_s": start_timeout_s(deployment),
    }
    document = {
        "name": deployment.service,
        "services": {deployment.service: _service(deployment)},
        "volumes": {"cache": None},
    }
    notes = ["docker compose -f compose/compose.yaml up -d --build --wait"]
    return {
        "compose/compose.yaml": yaml_document(document, [header(deployment), *notes]),
        "compose/Dockerfile": render("Dockerfile.j2", context),
        "compose/Dockerfile.dockerignore": f"# {header(deployment)}\n*\n!stack\n!rollback\n",
    }


def is_buildable(launch: LaunchSpec) -> bool:
    """True where Python runs the server, so that an image needs nothing but packages."""
    return launch.argv[0] == "{python}"


def _service(deployment: Deployment) -> dict[str, Any]:
    deploy = deployment.deploy
    address = deploy.host if deploy.host.replace(".", "").isdigit() or ":" in deploy.host else ""
    if deploy.host == "localhost":
        address = "127.0.0.1"
    port: dict[str, Any] = {"target": deploy.port, "published": str(deploy.port)}
    if address:
        port["host_ip"] = address
    service: dict[str, Any] = {
        "build": {"context": "..", "dockerfile": "compose/Dockerfile"},
        "image": f"{deployment.service}:{deployment.release}",
        "init": True,
        "restart": f"on-failure:{RESTART_LIMIT}",
        "stop_grace_period": f"{stop_timeout_s(deployment)}s",
        "ports": [port],
        "environment": {
            "LLM_RELEASE": f"${{LLM_RELEASE:-{deployment.release}}}",
            "LLM_HOST": "0.0.0.0",  # inside the container; `ports` decides who reaches it
            "HOME": f"{HOME}/var",
        },
        "volumes": [
            {"type": "volume", "source": "cache", "target": f"{HOME}/var"},
        ],
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "labels": {
            "teardown.config-sha256": deployment.config_sha256,
            "teardown.client": compose_value(deployment.client),
        },
    }
    if deployment.model_file is not None:
        service["volumes"].insert(
            0,
            {
                "type": "bind",
                "source": f"${{LLM_MODELS:-{deploy.install_dir}/models}}",
                "target": f"{HOME}/models",
                "read_only": True,
                "bind": {"create_host_path": False},
            },
        )
    if deployment.has_gpu:
        devices = [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
        service["deploy"] = {"resources": {"reservations": {"devices": devices}}}
    if deployment.stack.launcher == "vllm":
        service["shm_size"] = VLLM_SHM
    return service
