"""The replica as a Ray Serve deployment; skipped where Ray Serve is not installed."""

from pathlib import Path

import httpx2
import pytest

from earl.service.tokens import SCOPES, Tokens
from serving import TINY, bearer, learn, lessons, png, started


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_two_replicas_on_ray_answer_as_the_snapshot_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed", exc_type=ImportError)
    for name in ("RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, {"RAY_AUTH_MODE": "disabled"}.get(name, "0"))
    import ray
    from ray import serve

    from earl.service.cluster import deployment

    with started(tmp_path, TINY) as session:
        learn(session, *lessons((png(i), "ab"[i % 2]) for i in range(4)))
    secret = Tokens(tmp_path).add("first", SCOPES)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        serve.run(deployment(tmp_path, replicas=2), route_prefix="/predict")
        url = "http://127.0.0.1:8000/predict"
        files = {"image": png(1)}
        assert httpx2.post(url, files=files, timeout=30).status_code == 401
        for _ in range(4):
            found = httpx2.post(url, files=files, headers=bearer(secret), timeout=30).json()
            assert found["model_seq"] == 4 and found["answers"][0]["label"] in "ab"
    finally:
        serve.shutdown()
        ray.shutdown()
