"""Secrets do not leave the machine: by the name of a field or variable, and by their look."""

import json

import pytest

from qwenperf.store.scrub import REMOVED, scrub

SECRETS = {
    "github": "ghp_" + "a1B2" * 9,
    "fine-grained": "github_pat_" + "a1B2_" * 9,
    "gitlab": "glpat-" + "a1B2" * 6,
    "hub": "hf_" + "a1B2" * 8,
    "ours": "qpf_" + "a1B2" * 8,
    "cloud": "AKIA" + "ABCD1234" * 2,
    "chat": "xoxb-" + "1234567890-abc",
    "signed": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "model": "sk-" + "a1B2" * 8,
    "runner": "glrt-" + "a1B2" * 6,
    "chat app": "xapp-" + "1-A00-1-abc",
    "payment": "sk_live_" + "a1B2" * 6,
    "mail": f"SG.{'a1B2' * 5}.{'a1B2' * 8}",
    "droplet": "dop_v1_" + "a1b2" * 16,
    "vault": "hvs." + "a1B2" * 8,
    "bricks": "dapi" + "a1b2" * 8,
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_what_looks_like_a_token_is_removed_wherever_it_is(secret):
    """In an error message, a flag, a label or a finding, with the words around it kept."""
    clean, removed = scrub({"cases": [{"error": f"could not read {secret} from the hub"}], "label": secret})
    assert secret not in json.dumps(clean)
    assert clean["cases"][0]["error"] == f"could not read {REMOVED} from the hub"
    assert removed == 2


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hf_token",
        "AWS_SECRET_ACCESS_KEY",
        "db_password",
        "api_key",
        "apiKey",
        "signing-key",
        "KEY",
        "MYSQL_PWD",
        "SSHPASS",
        "DOCKER_AUTH_CONFIG",
    ],
)
def test_a_field_of_the_environment_with_a_secret_s_name_is_removed(name):
    """Whatever its value looks like, at any depth."""
    clean, removed = scrub({"environment": {"volatile": {name: "hunter2"}, "cpu_model": "a"}})
    assert clean == {"environment": {"volatile": {name: REMOVED}, "cpu_model": "a"}}
    assert removed == 1


def test_what_a_server_was_started_with_is_told_without_its_keys():
    """SGLang writes all of it beside each result; how tokens are made is no secret."""
    told = {"tokenizer_path": "m", "api_key": "hunter2", "ssl_keyfile_password": "hunter3", "admin_api_key": None}
    clean, removed = scrub({"cases": [{"spec": {"server_info": told}}]})
    (case,) = clean["cases"]
    assert case["spec"]["server_info"] == told | {"api_key": REMOVED, "ssl_keyfile_password": REMOVED}
    assert removed == 2


@pytest.mark.parametrize("where", ["environment", "env", "environ_vars", "ENVIRONMENT_VARIABLES"])
def test_a_secret_that_is_a_number_is_one(where):
    """A count of tokens, a switch and the folder that one is in are none."""
    kept = {"tokens": 3, "max_tokens": 4096, "use_auth_token": True, "PWD": "/home/a"}
    clean, removed = scrub({where: {"API_TOKEN": 123456789, **kept}})
    assert (clean, removed) == ({where: {"API_TOKEN": REMOVED, **kept}}, 1)


def test_what_was_scrubbed_is_not_scrubbed_again():
    """A run that was read back from a service is the same when it is sent once more."""
    text = 'HF_TOKEN=a hf_token=b --token c password=\'d e\' curl -u a:b x; login a password b {"auth": "abc"}'
    once, removed = scrub([text])
    assert removed == 1
    assert scrub(once) == (once, 0)


def test_words_about_tokens_stay():
    """What a model reads and writes is what we measure."""
    document = {
        "cases": [{"spec": {"new_tokens": 32, "key": "q"}, "metrics": {"decode_tokens_per_s": {"value": 1.0}},
                   "evidence": {"tokens": {"generated": [[1, 2]], "text": "the secret key of tokens=3"}},
                   "findings": [{"message": "tokens=12 key=3", "advice": "pass --new-tokens=5"},
                                {"message": "eos_token='</s>', token=123456"}]}],
        "environment": {"xla_flags": "--xla_cpu_enable_fast_math=false", "tokens": 3},
    }  # fmt: skip
    assert scrub(document) == (document, 0)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("HF_TOKEN=abcdef python run.py", f"HF_TOKEN={REMOVED} python run.py"),
        ('export DB_PASSWORD="a b c" X=1', f"export DB_PASSWORD={REMOVED} X=1"),
        ("git clone https://me:pass@example.org/x", f"git clone https://{REMOVED}@example.org/x"),
        ("postgresql://u:p%40q@db:5432/x", f"postgresql://{REMOVED}@db:5432/x"),
        ("Authorization: Bearer abcdefghijkl.mno", f"Authorization: Bearer {REMOVED}"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
        ("https://abcdef@example.org/x", f"https://{REMOVED}@example.org/x"),
        ("ssh://git@example.org/x", "ssh://git@example.org/x"),
        ("postgres://u:p/a55@h/db", f"postgres://{REMOVED}@h/db"),
        ("see HTTPS://user:p@ss@host/x", f"see HTTPS://{REMOVED}@host/x"),
        ("password=hunter2y token=abcdefgh", f"password={REMOVED} token={REMOVED}"),
        ("load(hf_token='abcd1234', n=3)", f"load(hf_token={REMOVED}, n=3)"),
        ("x --token abcdefg123 --n 2", f"x --token {REMOVED} --n 2"),
        ("x --db-password=hunter2 y", f"x --db-password={REMOVED} y"),
        ("GET /x?access_token=abc&page=2", f"GET /x?access_token={REMOVED}&page=2"),
        ("curl -s -u user:pw https://h", f"curl -s -u user:{REMOVED} https://h"),
        ("docker run -u 1000:1000 image", "docker run -u 1000:1000 image"),
        ('curl -H "X-Api-Key: abc123def" https://h', f'curl -H "X-Api-Key: {REMOVED}" https://h'),
        ("curl -H 'PRIVATE-TOKEN: abc123def' https://h", f"curl -H 'PRIVATE-TOKEN: {REMOVED}' https://h"),
        ("Authorization: token abc123def", f"Authorization: token {REMOVED}"),
        ("Cookie: session=abc; other=def", f"Cookie: {REMOVED}"),
        ("password: hunter2y", f"password: {REMOVED}"),
        ('{"client_secret": "hunter2y"}', f'{{"client_secret": "{REMOVED}"}}'),
        ('{"token": "Zq8vR3kLm2Xw9Tn4"}', f'{{"token": "{REMOVED}"}}'),
        ("token: 1234567890123456 or <|endoftext|>", "token: 1234567890123456 or <|endoftext|>"),
        ("the first token: thequickbrownfoxjumps", "the first token: thequickbrownfoxjumps"),
        ("mysql -u root -phunter2 db", f"mysql -u root -p{REMOVED} db"),
        ("AccountName=a;AccountKey=abc==;X=1", f"AccountName=a;AccountKey={REMOVED};X=1"),
        ("https://a.example/c?sv=1&sig=abc%3D&se=2", f"https://a.example/c?sv=1&sig={REMOVED}&se=2"),
        ("see https://hooks.slack.com/services/T0/B0/abc", f"see https://hooks.slack.com/services/{REMOVED}"),
        ("machine x login y password zs", f"machine x login y password {REMOVED}"),
        ('{"auths": {"x": {"auth": "dXNlcg=="}}}', f'{{"auths": {{"x": {{"auth": "{REMOVED}"}}}}}}'),
        ("MYSQL_PWD=abc sshpass ssh h", f"MYSQL_PWD={REMOVED} sshpass ssh h"),
        ("mysql db_pwd=abc pwd=/home/a", f"mysql db_pwd={REMOVED} pwd=/home/a"),
        ("PWD=/home/a BYPASS=1 make", "PWD=/home/a BYPASS=1 make"),
        ("https://example.org?mail=a@b", "https://example.org?mail=a@b"),
    ],
)
def test_variables_and_addresses_in_text_lose_their_secret_only(text, kept):
    """A command line or an address stays readable."""
    assert scrub([text])[0] == [kept]


def test_a_private_key_is_removed_whole():
    """Also where it was cut off."""
    text = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc"
    assert scrub([f"log: {text}"])[0] == [f"log: {REMOVED}"]


def test_the_environment_that_another_tool_kept_is_one():
    """Where asv keeps variables, beside the copy in the run's own environment; parameters of benchmarks stay."""
    document = {
        "extra": {"source": {"env_vars": {"MY_API_KEY": "hunter2"}, "params": {"env-MY_TOKEN": "hunter2", "os": "a"}}},
        "cases": [{"spec": {"params": {"token": "x", "key": "'a'"}}}],
    }
    clean, removed = scrub(document)
    assert clean["extra"] == {
        "source": {"env_vars": {"MY_API_KEY": REMOVED}, "params": {"env-MY_TOKEN": REMOVED, "os": "a"}}
    }
    assert (clean["cases"], removed) == (document["cases"], 2)


def test_a_command_line_in_a_list_loses_what_follows_an_option_for_secrets():
    """And no more: new tokens are numbers."""
    words = ["qwenperf", "push", "--token", "abc", "--api-key=de", "--new-tokens", "8", "--hf-token"]
    clean, removed = scrub({"argv": words})
    assert clean["argv"] == ["qwenperf", "push", "--token", REMOVED, f"--api-key={REMOVED}", *words[5:]]
    assert removed == 2
