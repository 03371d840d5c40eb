//! The table of commands, as `help` shows it, and how their arguments are read.

use std::fmt::Write;

use super::{Code, Command, FIRST_FORBIDDEN, NO_VLAN};

/// A command, or a heading of the table.
pub(super) struct Entry {
    path: &'static str,
    syntax: &'static str,
    help: &'static str,
    /// Whether its answer has data.
    pub(super) shows: bool,
}

const MENU: &str = "============";

const fn menu(path: &'static str, help: &'static str) -> Entry {
    Entry { path, syntax: MENU, help, shows: false }
}

const fn show(path: &'static str, syntax: &'static str, help: &'static str) -> Entry {
    Entry { path, syntax, help, shows: true }
}

const fn change(path: &'static str, syntax: &'static str, help: &'static str) -> Entry {
    Entry { path, syntax, help, shows: false }
}

/// In the order of `vde_switch`.
static TABLE: &[Entry] = &[
    menu("ds", "DATA SOCKET MENU"),
    show("ds/showinfo", "", "show ds info"),
    show("help", "[arg]", "Help (limited to arg when specified)"),
    change("logout", "", "logout from this mgmt terminal"),
    show("showinfo", "", "show switch version and info"),
    menu("hash", "HASH TABLE MENU"),
    show("hash/showinfo", "", "show hash info"),
    show("hash/print", "", "print the hash table"),
    show("hash/find", "MAC [VLAN]", "MAC lookup"),
    menu("port", "PORT STATUS MENU"),
    show("port/showinfo", "", "show port info"),
    change("port/setvlan", "N VLAN", "set port VLAN (untagged)"),
    change("port/setuser", "N user", "access control: set user"),
    change("port/setgroup", "N user", "access control: set group"),
    change("port/epclose", "N ID", "remove the endpoint port N/id ID"),
    show("port/lost", "", "print frames that endpoints did not take in time"),
    show("port/print", "[N]", "print the port/endpoint table"),
    show("port/allprint", "[N]", "print the port/endpoint table (including inactive port)"),
    menu("vlan", "VLAN MANAGEMENT MENU"),
    change("vlan/create", "N", "create the VLAN with tag N"),
    change("vlan/remove", "N", "remove the VLAN with tag N"),
    change("vlan/addport", "N PORT", "add port to the vlan N (tagged)"),
    // `vde_switch` has these words for both.
    change("vlan/delport", "N PORT", "add port to the vlan N (tagged)"),
    show("vlan/print", "[N]", "print the list of defined vlan"),
    show("vlan/allprint", "[N]", "print the list of defined vlan (including inactive port)"),
];

/// The table, or the part whose paths begin with this text.
pub fn help(only: &str) -> String {
    let mut text = String::new();
    let mut line = |[path, syntax, help]: [&str; 3]| {
        let _ = writeln!(text, "{path:<18} {syntax:<15} {help}");
    };
    line(["COMMAND PATH", "SYNTAX", "HELP"]);
    line(["------------", "--------------", "------------"]);
    for entry in TABLE.iter().filter(|entry| entry.path.starts_with(only)) {
        line([entry.path, entry.syntax, entry.help]);
    }
    text
}

/// The command that a line begins with, and what follows.
pub(super) fn find(line: &str) -> Option<(&'static Entry, &str)> {
    let commands = TABLE.iter().filter(|entry| entry.syntax != MENU);
    commands.filter_map(|entry| Some((entry, line.strip_prefix(entry.path)?.trim()))).next()
}

/// Reads the arguments of a command.
pub(super) fn command(entry: &Entry, arguments: &str) -> Result<Command, Code> {
    let mut words = arguments.split_whitespace();
    let mut next = || words.next();
    Ok(match entry.path {
        "ds/showinfo" => Command::ShowSocket,
        "help" => Command::Help(next().unwrap_or_default().to_owned()),
        "logout" => Command::Logout,
        "showinfo" => Command::Show,
        "hash/showinfo" => Command::ShowHash,
        "hash/print" => Command::Addresses,
        "hash/find" => Command::Find { mac: mac(next())?, vlan: maybe(next(), vlan)? },
        "port/showinfo" => Command::ShowPorts,
        "port/setvlan" => Command::SetVlan { port: port(next())?, vlan: untagged(next())? },
        "port/setuser" => Command::SetUser { port: port(next())?, user: word(next())? },
        "port/setgroup" => Command::SetGroup { port: port(next())?, group: word(next())? },
        "port/epclose" => Command::Close { port: port(next())?, endpoint: number(next())? },
        "port/lost" => Command::Lost,
        "port/print" => Command::Ports { only: maybe(next(), port)?, all: false },
        "port/allprint" => Command::Ports { only: maybe(next(), port)?, all: true },
        "vlan/create" => Command::Create(made(next())?),
        "vlan/remove" => Command::Remove(vlan(next())?),
        "vlan/addport" => Command::AddPort { vlan: vlan(next())?, port: port(next())? },
        "vlan/delport" => Command::DeletePort { vlan: vlan(next())?, port: port(next())? },
        "vlan/print" => Command::Vlans { only: maybe(next(), vlan)?, all: false },
        "vlan/allprint" => Command::Vlans { only: maybe(next(), vlan)?, all: true },
        _ => return Err(Code::UNKNOWN),
    })
}

fn maybe<T>(
    word: Option<&str>,
    read: impl FnOnce(Option<&str>) -> Result<T, Code>,
) -> Result<Option<T>, Code> {
    word.map(|word| read(Some(word))).transpose()
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Result<T, Code> {
    let digits = word.filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|word| word.parse().ok()).ok_or(Code::INVALID)
}

fn port(word: Option<&str>) -> Result<u8, Code> {
    number(word).and_then(|port: u8| if port == 0 { Err(Code::INVALID) } else { Ok(port) })
}

fn vlan(word: Option<&str>) -> Result<u16, Code> {
    let vlan: u16 = number(word)?;
    if vlan > FIRST_FORBIDDEN { Err(Code::INVALID) } else { Ok(vlan) }
}

/// A VLAN, or none.
fn untagged(word: Option<&str>) -> Result<u16, Code> {
    if number(word) == Ok(NO_VLAN) { Ok(NO_VLAN) } else { vlan(word) }
}

/// A VLAN that can be created.
fn made(word: Option<&str>) -> Result<u16, Code> {
    let vlan = vlan(word)?;
    if (1..FIRST_FORBIDDEN).contains(&vlan) { Ok(vlan) } else { Err(Code::INVALID) }
}

fn word(word: Option<&str>) -> Result<String, Code> {
    word.map(str::to_owned).ok_or(Code::INVALID)
}

fn mac(word: Option<&str>) -> Result<[u8; 6], Code> {
    let mut parts = word.ok_or(Code::INVALID)?.split(':');
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part =
            // `from_str_radix` would take a sign.
            parts.next().filter(|part| (1..=2).contains(&part.len()) && !part.starts_with('+'));
        let read = part.and_then(|part| u8::from_str_radix(part, 16).ok());
        *byte = read.ok_or(Code::INVALID)?;
    }
    if parts.next().is_some() { Err(Code::INVALID) } else { Ok(mac) }
}
