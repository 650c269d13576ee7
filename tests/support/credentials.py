"""Keys as services give them, of no account."""

from __future__ import annotations

R = "q7Xw2Lm9Rt4Kp8Zs6Vb3Nc5H"  # 24 signs of no meaning
X = "0123456789abcdef" * 3

TOKENS = (
    *(f"sk-proj-{R}", f"sk-ant-api03-{R}", f"sk-or-v1-{X}", f"hf_{R}", f"nvapi-{R}", f"gsk_{R}", f"r8_{R}"),
    *(f"xai-{R}", f"pplx-{R}", f"tvly-dev-{R}", f"fc-{X[:32]}", f"jina_{R}", f"pcsk_{R}", f"fw_{R}"),
    *(f"lsv2_pt_{X[:32]}", f"e2b_{X[:40]}", f"dapi{X[:32]}", f"BSA{R}abc", f"ghp_{R}", f"github_pat_{R}"),
    *(f"glpat-{R}", f"npm_{R}{R}", f"pypi-AgEIcHlwaS5vcmc{R}", f"ATATT3xFfGF0{R}", f"ntn_{R}{R}"),
    *(f"lin_api_{R}", f"figd_{R}", f"patAbCdEf01234567.{X}", f"PMAK-{R}-{R}"),
    *("AKIAIOSFODNN7ABCDEFG", f"AIzaSy{R}{R}", f"ya29.{R}", f"GOCSPX-{R}", f"dop_v1_{X}", f"hvs.{R}"),
    *(f"dp.pt.{R}", f"tskey-auth-{R}", f"sbp_{R}", f"sb_secret_{R}", f"napi_{R}", f"AGE-SECRET-KEY-1{R}"),
    *(f"xoxb-1234567890-{R}", f"xapp-1-{R}", f"SG.{R}.{R}", f"1234567890:AAF{R}{R}", f"sk_live_{R}"),
    *(f"whsec_{R}", f"shpat_{X[:32]}", f"key-{X[:32]}", f"glsa_{R}", f"NRAK-{R}", f"sntrys_{R}", f"phx_{R}"),
    *(f"eyJhbGciOiJI.eyJzdWIiOiIx.{R}", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"),
)
