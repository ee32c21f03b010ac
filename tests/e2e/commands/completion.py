#!/usr/bin/env python3
"""`penstock completion` prints scripts that complete what the commands' own help lists. bash runs its script here; zsh and fish run
theirs where they are installed."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Skip, folder, run_tests, tool


def said(*words, code=0):
    run = subprocess.run([tool("penstock"), *words], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == code, (words, run.stdout, run.stderr)
    return run.stdout if code == 0 else run.stderr


def commands():
    return re.findall(r"^  ([a-z]+) ", said("--help"), re.MULTILINE)


def options(command):
    """The long options of a command, and the words of those that are a choice."""
    found = re.findall(r"^  (?:-., |    )--([a-z0-9-]+)(?: (\S+))?", said(command, "--help"), re.MULTILINE)
    return {name: value.split("|") if re.fullmatch(r"[a-z0-9_]+(\|[a-z0-9_]+)+", value) else [] for name, value in found}


def completed(script, words, home):
    """What bash offers for the last word."""
    program = f'source {script}\nCOMP_WORDS=("$@")\nCOMP_CWORD=$(($# - 1))\n_penstock\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    run = subprocess.run(["bash", "-c", program, "bash", *words], capture_output=True, text=True, timeout=LIMIT, cwd=home)
    assert run.returncode == 0 and not run.stderr, (words, run.stderr)
    return run.stdout.split()


def test_bash():
    with folder() as home:
        script = home / "penstock.bash"
        script.write_text(said("completion", "bash"))
        (home / "images.tar").touch()
        assert completed(script, ["penstock", ""], home) == [*commands(), "--help", "--version"]
        assert completed(script, ["penstock", "be"], home) == ["bench"]
        for command in commands():
            wanted = options(command)
            assert set(completed(script, ["penstock", command, "--"], home)) == {f"--{name}" for name in wanted}, command
            for name, words in wanted.items():
                if words:
                    assert completed(script, ["penstock", command, f"--{name}", ""], home) == words, (command, name)
        assert completed(script, ["penstock", "bench", "im"], home) == ["images.tar"]
        assert completed(script, ["penstock", "bench", "--threads", "im"], home) == []
        assert completed(script, ["penstock", "show", "-o", "im"], home) == ["images.tar"]
        assert completed(script, ["penstock", "cache", "v"], home) == ["verify"]
        assert completed(script, ["penstock", "nothing", "im"], home) == []


def test_shellcheck():
    if not shutil.which("shellcheck"):
        raise Skip("no shellcheck")
    run = subprocess.run(["shellcheck", "-s", "bash", "-"], input=said("completion", "bash"), capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0, run.stdout


def listed(script, command):
    return set(re.findall(r"--([a-z0-9-]+)", script[command]))


def test_zsh():
    text = said("completion", "zsh")
    parts = dict(re.findall(r"^\t([a-z]+)\)\n(.*?)\n\t\t;;$", text, re.MULTILINE | re.DOTALL))
    assert list(parts) == commands()
    for command in commands():
        assert set(options(command)) <= listed(parts, command), command
    if not shutil.which("zsh"):
        raise Skip("no zsh: only the script's text was looked at")
    run = subprocess.run(["zsh", "-n", "/dev/stdin"], input=text, capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0 and not run.stderr, run.stderr


def test_fish():
    text = said("completion", "fish")
    for command in commands():
        names = set(re.findall(rf"__fish_seen_subcommand_from {command}' -(?:s h -)?l ([a-z0-9-]+)", text))
        assert names == set(options(command)), command
    if not shutil.which("fish"):
        raise Skip("no fish: only the script's text was looked at")
    with folder() as home:
        (home / "penstock.fish").write_text(text)
        run = subprocess.run(["fish", "-c", f"source {home}/penstock.fish; complete -C 'penstock be'"], capture_output=True, text=True,
                             timeout=LIMIT)
        assert run.returncode == 0 and run.stdout.startswith("bench\t") and not run.stderr, (run.stdout, run.stderr)


def test_refused():
    assert "expected bash, zsh or fish, got \"tcsh\"" in said("completion", "tcsh", code=2)
    assert "completion" in said("completion", code=2)


if __name__ == "__main__":
    run_tests(globals())
