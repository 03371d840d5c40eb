//! `up --on` over ssh(1) to sshd(8): nodes of another lab are the hosts, whose agents ssh starts.

use std::path::Path;
use std::time::Duration;

use netloom_kit::{Binary, Run};
use netloom_tests_e2e::given::{libraries, server};
use netloom_tests_e2e::{machine, needs, root_only, workspace_root};

use super::{HOSTS, Hosts};

/// A key pair in a folder: what it is in files, private and public.
fn key(folder: &Path, name: &str) -> [String; 2] {
    let path = folder.join(name);
    let make = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"];
    Run::new("ssh-keygen").args(make).args([&path]).ok();
    [path.clone(), path.with_extension("pub")]
        .map(|path| std::fs::read_to_string(path).expect("a key"))
}

#[test]
fn ssh_starts_the_agents_of_hosts_and_cannot_ask_for_a_password() {
    root_only!("a node has a lab in it");
    needs!("ip", "ping", "services", "ssh");
    let machine = machine!();
    let scratch = machine.scratch();
    let (folder, outer) = (scratch.path(), scratch.lab("ssh"));
    let [[_, public], [private, of_host]] = [key(folder, "client"), key(folder, "host")];
    let netloom = Binary::find().path().to_owned();
    let place = netloom.parent().expect("its folder").display();
    let config = format!(
        "HostKey /srv/hostkey\nAuthorizedKeysFile /srv/authorized\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nSetEnv PATH={place}:/usr/sbin:/usr/bin:/sbin:/bin\n"
    );
    let node = format!(
        "{{privileged: true, setup: [[mkdir, -p, -m, \"0755\", /run/sshd]], files: {{\
         /etc/passwd: \"root:x:0:0::/root:/bin/sh\\nsshd:x:100:65534::/run/sshd:/bin/false\\n\", \
         /etc/shadow: \"root:*:19000:0:99999:7:::\\n\", /srv/sshd_config: {config:?}, /srv/authorized: {public:?}, \
         /srv/hostkey: {{text: {private:?}, mode: \"0600\"}}}}}}"
    );
    let example = |name: &str| {
        let path = workspace_root().join("examples").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let text = example("three-hosts.yaml").replace("name: three-hosts", &format!("name: {outer}"));
    let nested = HOSTS.iter().fold(text, |text, host| {
        text.replace(&format!("{host}: {{}}"), &format!("{host}: {node}"))
    });
    assert_eq!(nested.matches("privileged").count(), 3);
    machine.up_file(&scratch.file("outer.yaml", nested));
    scratch.file("campus.yaml", example("three-hosts/campus.yaml"));
    let hosts: String = (1..)
        .zip(HOSTS)
        .map(|(n, host)| format!("  {host}: {{underlay: {{address: 192.0.2.{n}, mtu: 1550}}}}\n"))
        .collect();
    scratch.file("hosts.yaml", format!("hosts:\n{hosts}"));
    // The user's own configuration of ssh: its words come from netloom.
    let ssh = |known: &[&str], more: &str| {
        let known: String = known.iter().map(|host| format!("{host} {of_host}")).collect();
        scratch.file("known", known);
        let sshd = server("sshd").expect("sshd").display().to_string();
        let libraries =
            libraries().replace("{LD_LIBRARY_PATH: ", "LD_LIBRARY_PATH=").replace('}', "");
        let text = format!(
            "User root\nIdentityFile {0}/client\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n\
             UserKnownHostsFile {0}/known\nGlobalKnownHostsFile none\nProxyCommand {1} exec -l {outer} %h -- env {libraries} {sshd} -i -f \
             /srv/sshd_config {more}\n",
            folder.display(),
            netloom.display()
        );
        scratch.file("ssh_config", text);
    };
    std::fs::create_dir(folder.join("bin")).expect("a folder");
    let words = format!("#!/bin/sh\nexec /usr/bin/ssh -F {}/ssh_config \"$@\"\n", folder.display());
    let script = scratch.file("bin/ssh", words);
    Run::new("chmod").args([Path::new("755"), &script]).ok();
    let path = format!("{}/bin:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let over = |args: &[&str]| {
        let (verb, rest) = args.split_first().expect("a verb");
        let args = [&[*verb, "--on", "hosts.yaml"], rest].concat();
        machine.netloom(args).env("PATH", &path).bound(Duration::from_secs(300))
    };
    // It takes passwords alone, and nobody can be asked for one.
    ssh(&HOSTS, "-o PubkeyAuthentication=no");
    let told = over(&["up", "campus.yaml"]).finish().code(1);
    told.says("host \"west\": its agent ended at once; it said: ")
        .says("Permission denied")
        .says("nothing was made");
    ssh(&HOSTS[..2], "");
    let told = over(&["up", "campus.yaml"]).finish().code(1);
    told.says("host \"west\": its agent ended at once").says("Host key verification failed");
    ssh(&HOSTS, "");
    let up = over(&["up", "campus.yaml"]).finish().code(0).text();
    assert!(up.starts_with("lab campus: 12 nodes, 16 links up on 3 hosts in "), "{up}");
    let all = Hosts::all_answer(|| over(&["ping", "--all", "--json", "-l", "campus"]));
    assert_eq!(all, [(132, 132), (132, 132)]);
    let exec = ["exec", "-l", "campus", "h-west-1", "--", "sh", "-c", "cat; exit 7"];
    let through = over(&exec).input("through\n").finish().code(7);
    assert_eq!(through.text(), "through\n");
    over(&["down", "campus"]).finish().code(0);
    machine.netloom(["down", &outer]).finish().code(0);
    machine.untouched();
}
