"""Stores that Java itself opens."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority, StoreType


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_java_reads_the_stores(tmp_path: Path, store_type: StoreType) -> None:
    """The JDK's keytool finds one trusted certificate and one private key."""
    authority = CertificateAuthority(tmp_path)
    kinds = {
        authority.truststore(store_type): "trustedCertEntry",
        authority.keystore("alice", store_type): "PrivateKey",
    }
    for store, kind in kinds.items():
        command = ["keytool", "-list", "-keystore", str(store), "-storepass", STORE_PASSWORD]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert kind in listed
