#!/usr/bin/python3
"""Runs the commands of the README's sixty seconds and compares what they print: sixty_seconds.py FOLDER

FOLDER has README.md and examples/, as the package's documents do. The fences are those that tests/e2e/tests/docs.rs runs: one
shell a block, what is titled a file is written first, `…` stands for anything, a line that is only `…` for any lines.
Here all numbers and IPv6 addresses may differ.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

MARK = '@@ exit code '
NUMBER = r'\d+(?:\.\d+)?'
# With its unit, which may differ, too. An ordinary user without control groups sees `-` instead of accounts.
AMOUNT = re.compile(r'(?<!\S)(\(?)\d+(?:\.\d+)?( (?:s|ms|B|KiB|MiB|GiB))?(\)?)(?!\S)')


def section_of(readme):
    return readme.split('\n## Sixty seconds\n')[1].split('\n## ')[0]


def files(section):
    """Names and texts of the files that it has the reader write."""
    return re.findall(r'^```yaml title=(\S+)\n(.*?)^```', section, re.M | re.S)


def blocks(section):
    """Lists of commands, each with its lines of output."""
    for block in re.findall(r'^```console\n(.*?)^```', section, re.M | re.S):
        commands = []
        for line in block.splitlines():
            if line.startswith('$ '):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        yield commands


# An address in hexadecimal, which has letters, too.
ADDRESS = re.compile(r'\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){3,7}\b')

# What stands for an amount while a line is made a pattern.
SIGNS = {'\x01': rf'(?:{NUMBER}|-)', '\x02': rf'(?:{NUMBER}\s+(?:s|ms|B|KiB|MiB|GiB)|-)',
         '\x03': r'[0-9a-f:]+'}


def amount(found):
    return found[1] + ('\x02' if found[2] else '\x01') + found[3]


def pattern(lines):
    """What the output must match, whatever its numbers and its blanks."""
    parts = []
    for line in lines:
        if line.strip() == '…':
            parts.append(r'(?:.*\n)*?')
            continue
        words = ADDRESS.sub('\x03', AMOUNT.sub(amount, line)).split()
        words = (re.escape(word).replace('…', '.*') for word in words)
        words = (re.sub(r'\d+(?:\\\.\d+)?', lambda _: NUMBER, word) for word in words)
        line = r'\s*' + r'\s+'.join(words) + r'\s*\n'
        for sign, meant in SIGNS.items():
            line = line.replace(sign, meant)
        parts.append(line)
    return ''.join(parts)


def run(commands, folder, runtime):
    # Each command sees the exit code of the one before, as by hand: the marks keep it.
    script = 'keep() { return "$1"; }\n'
    for text, _ in commands:
        text = text.replace('/run/netloom/', shlex.quote(runtime) + '/')
        script += f'keep "${{code:-0}}"\n{text}\ncode=$?\necho "{MARK}$code"\n'
    done = subprocess.run(['bash', '-c', script], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = re.split(f'{MARK}(\\d+)\n', done.stdout)
    return list(zip(said[0::2], map(int, said[1::2])))


def main():
    source = os.path.realpath(sys.argv[1])
    runtime = os.path.join(os.environ['XDG_RUNTIME_DIR'], 'netloom')
    with open(f'{source}/README.md') as file:
        section = section_of(file.read())
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(f'{source}/examples', f'{folder}/examples')
        for name, text in files(section):
            with open(os.path.join(folder, name), 'w') as file:
                file.write(text)
        for commands in blocks(section):
            results = run(commands, folder, runtime)
            if len(results) != len(commands):
                wrong.append(f'{commands}: only {results}')
                break
            after = [text for text, _ in commands[1:]] + ['']
            for (text, shown), (said, code), following in zip(commands, results, after):
                count += 1
                if code != 0 and following != 'echo $?':
                    wrong.append(f'$ {text}\nexit code {code}: {said}')
                if not re.fullmatch(pattern(shown), said):
                    wrong.append(f'$ {text}\nprints {said}\nand not {shown}')
    for one in wrong:
        print(one)
    print(f'{count} commands, {len(wrong)} differ')
    sys.exit(1 if wrong or count < 8 else 0)


main()
