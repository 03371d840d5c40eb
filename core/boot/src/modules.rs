//! Kernel modules: what each says of itself, which others it needs, and the lists by which `modprobe` finds them.
//!
//! The lists are those of depmod(8), as text: `modules.dep`, where a module's line ends with what must be loaded first,
//! and `modules.alias`. Distributions make them when a kernel is installed, so packages do not have them.

use std::collections::{BTreeMap, BTreeSet};

use crate::elf;

/// What a module says of itself, in its section `.modinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its file, below the folder of the kernel's modules.
    pub file: String,
    /// Names of modules that must be loaded before it.
    pub needs: Vec<String>,
    /// Other names, as patterns.
    pub aliases: Vec<String>,
}

/// The modules of a kernel, by name.
#[derive(Clone, Debug, Default)]
pub struct Modules(BTreeMap<String, Module>);

/// A module's name by its file: `kernel/net/sched/sch-x.ko` is `sch_x`.
pub fn name(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    last.split('.').next().unwrap_or(last).replace('-', "_")
}

impl Modules {
    /// Adds a module, by its file's name and content; `false` if that is not a module.
    pub fn add(&mut self, file: &str, content: &[u8]) -> bool {
        let Some(info) = elf::section(content, ".modinfo") else { return false };
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in info.split(|byte| *byte == 0) {
            let Some((key, value)) = std::str::from_utf8(item).ok().and_then(|i| i.split_once('='))
            else {
                continue;
            };
            match key {
                "depends" => {
                    // A module that needs none has the key all the same, with an empty value.
                    let names = value.split(',').filter(|name| !name.is_empty());
                    module.needs.extend(names.map(name));
                }
                "alias" => module.aliases.push(value.to_owned()),
                _ => {}
            }
        }
        self.0.insert(name(file), module);
        true
    }

    /// Keeps the modules whose file is wanted, and what they need.
    pub fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        let mut kept = BTreeSet::new();
        for (name, module) in &self.0 {
            if wanted(&module.file) {
                kept.extend(self.before(name));
                kept.insert(name.clone());
            }
        }
        self.0.retain(|name, _| kept.contains(name));
    }

    /// Files of all, in the order of names.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|module| module.file.as_str())
    }

    /// `modules.dep`: what a module needs, what it needs first at the end.
    pub fn dep(&self) -> String {
        let line = |(name, module): (&String, &Module)| {
            let needs = self.before(name);
            let files = needs.iter().rev().filter_map(|name| Some(&self.0.get(name)?.file));
            let files: String = files.map(|file| format!(" {file}")).collect();
            format!("{}:{files}\n", module.file)
        };
        self.0.iter().map(line).collect()
    }

    /// `modules.alias`.
    pub fn alias(&self) -> String {
        let lines = self.0.iter().flat_map(|(name, module)| {
            module.aliases.iter().map(move |alias| format!("alias {alias} {name}\n"))
        });
        lines.collect()
    }

    /// What must be loaded before a module, in an order in which it can be.
    fn before(&self, name: &str) -> Vec<String> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::from([name.to_owned()]));
        self.visit(name, &mut seen, &mut order);
        order.pop();
        order
    }

    /// Appends what a module needs, then itself. A circle, which depmod refuses, ends.
    fn visit(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<String>) {
        for need in self.0.get(name).into_iter().flat_map(|module| &module.needs) {
            if self.0.contains_key(need) && seen.insert(need.clone()) {
                self.visit(need, seen, order);
            }
        }
        order.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module's file with this `.modinfo`, as an ELF file of two sections.
    fn module(info: &str) -> Vec<u8> {
        let names = b"\0.modinfo\0";
        let (names_at, info_at) = (64, 64 + names.len());
        let headers = info_at + info.len();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x28..0x30].copy_from_slice(&(headers as u64).to_le_bytes());
        file[0x3a..0x40].copy_from_slice(&[64, 0, 2, 0, 0, 0]);
        file.extend(names);
        file.extend(info.as_bytes());
        for (name, at, length) in [(0u32, names_at, names.len()), (1, info_at, info.len())] {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&(at as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
            file.extend(header);
        }
        file
    }

    fn modules() -> Modules {
        let mut modules = Modules::default();
        for (file, info) in [
            ("kernel/net/br.ko", "license=GPL\0depends=stp,llc\0alias=rtnl-link-bridge\0"),
            ("kernel/net/stp.ko", "depends=llc\0"),
            ("kernel/net/llc.ko", "depends=\0"),
            ("kernel/sound/snd-x.ko", "alias=pci:*\0depends=\0"),
        ] {
            assert!(modules.add(file, &module(info)));
        }
        modules
    }

    #[test]
    fn what_a_module_needs_first_comes_last_in_its_line() {
        let text = "kernel/net/br.ko: kernel/net/stp.ko kernel/net/llc.ko\n\
                    kernel/net/llc.ko:\nkernel/sound/snd-x.ko:\nkernel/net/stp.ko: kernel/net/llc.ko\n";
        assert_eq!(modules().dep(), text);
        assert_eq!(modules().alias(), "alias rtnl-link-bridge br\nalias pci:* snd_x\n");
    }

    #[test]
    fn what_is_kept_has_what_it_needs() {
        let mut modules = modules();
        modules.keep(|file| file.ends_with("/stp.ko"));
        assert_eq!(modules.files().collect::<Vec<_>>(), ["kernel/net/llc.ko", "kernel/net/stp.ko"]);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let mut modules = Modules::default();
        let whole = module("depends=\0");
        for wrong in [&b""[..], b"\x7fELF\x02\x01", &whole[..100], b"\x1f\x8b"] {
            assert!(!modules.add("x.ko", wrong));
        }
        let mut circle = Modules::default();
        circle.add("a.ko", &module("depends=b\0"));
        circle.add("b.ko", &module("depends=a\0"));
        assert_eq!(circle.dep(), "a.ko: b.ko\nb.ko: a.ko\n");
    }
}
