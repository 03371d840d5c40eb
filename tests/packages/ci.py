#!/usr/bin/python3
"""Runs the steps of ci/github/action.yml and the lines of ci/gitlab/netloom.yml as their runners do: ci.py PACKAGE

As an ordinary user whose sudo asks for nothing, in a machine without netloom. PACKAGE is the deb package.

Each case says what the job's end is to be, and what is kept of it. What the runners themselves do is not tried: that
upload-artifact uploads, and that GitLab shows the XML.
"""

import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import xml.dom.minidom

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
EXPRESSION = re.compile(r'\$\{\{\s*inputs\.(\w+)\s*\}\}')

GOOD = 'name: good\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\nexpect:\n  - reaches: [a, b]\n'
WRONG = GOOD.replace('good', 'wrong') + '  - cannot-reach: [a, b]\n'

passed = failed = 0


def judge(name, problems):
    global passed, failed
    if problems:
        failed += 1
        print(f'failed: {name}: ' + '; '.join(problems))
    else:
        passed += 1
        print(f'ok: {name}')
    sys.stdout.flush()


def bash(text, variables, folder):
    """Runs a script as both runners do: bash that stops at the first failure, also in a pipe."""
    with tempfile.NamedTemporaryFile('w', suffix='.sh', delete=False) as script:
        script.write(text)
    command = ['bash', '--noprofile', '--norc', '-eo', 'pipefail', script.name]
    done = subprocess.run(command, env={**os.environ, **variables}, cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.unlink(script.name)
    return done.returncode, done.stdout


def github(folder, given):
    """The job's exit code, its output, and the paths that it keeps."""
    with open(f'{ROOT}/ci/github/action.yml') as file:
        action = yaml.safe_load(file)
    inputs = {}
    for name, about in action['inputs'].items():
        if name not in given and about.get('required'):
            raise SystemExit(f'action.yml: {name} is required')
        inputs[name] = given.get(name, about.get('default'))
    unknown = set(given) - set(inputs)
    assert not unknown, unknown

    def put(text):
        return EXPRESSION.sub(lambda found: inputs[found[1]], text)

    code, said, kept, outcome = 0, '', [], {}
    with tempfile.TemporaryDirectory() as temporary:
        for step in action['runs']['steps']:
            condition = step.get('if', 'success()')
            if condition == "always() && steps.test.outcome != 'skipped'":
                wanted = outcome['test'] != 'skipped'
            else:
                assert condition == 'success()', condition
                wanted = code == 0
            if not wanted:
                outcome[step.get('id')] = 'skipped'
            elif 'run' in step:
                # An input inside a script would be code.
                assert step['shell'] == 'bash' and '${{' not in step['run'], step
                variables = {name: put(text) for name, text in step.get('env', {}).items()}
                variables['RUNNER_TEMP'] = temporary
                one, text = bash(step['run'], variables, folder)
                code, said = code or one, said + text
                outcome[step.get('id')] = 'failure' if one else 'success'
            else:
                assert step['uses'].startswith('actions/upload-artifact@v'), step
                assert put(step['with']['name'])
                kept += put(step['with']['path']).split()
    return code, said, kept


def gitlab(folder, given):
    """The same for GitLab, whose lines before and in the script share a shell."""
    with open(f'{ROOT}/ci/gitlab/netloom.yml') as file:
        job = yaml.safe_load(file)['.netloom-test']
    names = {'package': 'NETLOOM_PACKAGE', 'sha256': 'NETLOOM_SHA256', 'labs': 'NETLOOM_LABS',
             'userns': 'NETLOOM_USERNS'}
    variables = dict(job['variables'])
    variables.update({names[name]: text for name, text in given.items()})
    code, said = bash('\n'.join(job['before_script'] + job['script']), variables, folder)
    assert job['artifacts']['when'] == 'always'
    assert job['artifacts']['reports']['junit'] in job['artifacts']['paths']
    return code, said, job['artifacts']['paths']


def files_of(folder, kept):
    found = []
    for path in kept:
        whole = os.path.join(folder, path)
        found += glob.glob(whole + '/*') if os.path.isdir(whole) else glob.glob(whole)
    return sorted(os.path.relpath(path, folder) for path in found)


def counts(folder, name):
    suites = xml.dom.minidom.parse(os.path.join(folder, name)).documentElement
    return suites.getAttribute('tests'), suites.getAttribute('failures')


def remove():
    subprocess.run(['sudo', 'apt-get', 'purge', '-y', '-qq', 'netloom'], check=True,
                   stdout=subprocess.DEVNULL)


def case(name, runner, given, lab, code, kept, says=''):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f'{folder}/labs')
        with open(f'{folder}/labs/lab.yaml', 'w') as file:
            file.write(lab)
        ended, said, paths = runner(folder, given)
        problems = []
        if ended != code:
            problems.append(f'exit code {ended}, not {code}: {said}')
        if says not in said:
            problems.append(f'does not say {says!r}: {said}')
        found = files_of(folder, paths)
        if found != kept:
            problems.append(f'keeps {found}, not {kept}: {said}')
        elif kept:
            tests = ('2', '0') if code == 0 else ('3', '1')
            if counts(folder, 'netloom-results.xml') != tests:
                problems.append(f'{counts(folder, "netloom-results.xml")} are not {tests}')
        judge(f'{runner.__name__}: {name}', problems)


def main():
    package = os.path.realpath(sys.argv[1])
    with open(package, 'rb') as file:
        good = hashlib.sha256(file.read()).hexdigest()
    results, frames = 'netloom-results.xml', 'netloom-frames/wrong-2.pcapng'
    for runner in github, gitlab:
        here = {'package': package, 'sha256': good}
        case('another sum', runner, {**here, 'sha256': '0' * 64}, GOOD, 1, [], 'FAILED')
        case('a URL without a sum', runner, {'package': 'https://localhost/netloom.deb'}, GOOD, 1, [],
             'a package from a URL must have a sum')
        case('a URL that is not https', runner, {'package': 'http://localhost/netloom.deb'}, GOOD, 1, [],
             'write a path or an https URL')
        case('labs that hold', runner, here, GOOD, 0, [results], '2 of 2 steps')
        case('labs that do not hold', runner, here, WRONG, 1, sorted([frames, results]), 'FAIL  a cannot reach b')
        remove()
    print(f'{passed} passed, {failed} failed, 0 skipped')
    sys.exit(1 if failed else 0)


main()
