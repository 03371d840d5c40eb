//! `new` and `example`: commented labs to begin with, which are files of `examples/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use netloom_container::Store;
use netloom_sys::trusted::TrustedDir;

use super::foreign::write;
use super::up;
use crate::Usage;
use crate::flags::{Example, Importing, New, TemplateName, Up};
use crate::labs::Wish;
use crate::output;

/// A lab to begin with.
struct Template {
    name: TemplateName,
    what: &'static str,
    /// The name of its file in `examples/`.
    file: &'static str,
    text: &'static str,
    /// Files that the lab puts into nodes: name, text.
    beside: &'static [(&'static str, &'static str)],
}

macro_rules! template {
    ($name:ident, $file:literal, $what:literal $(, $beside:literal)*) => {
        Template {
            name: TemplateName::$name,
            what: $what,
            file: $file,
            text: include_str!(concat!("../../../../examples/", $file)),
            beside: &[$(($beside, include_str!(concat!("../../../../examples/", $beside)))),*],
        }
    };
}

const TEMPLATES: [Template; 7] = [
    template!(TwoSites, "two-sites.yaml", "two hosts, two routers, a web server"),
    template!(
        Office,
        "office.yaml",
        "DHCP, DNS and a firewall with NAT (dnsmasq, nftables, udhcpc)"
    ),
    template!(FrrOspf, "frr-ospf.yaml", "routers that find another way by OSPF (frr)"),
    template!(FrrBgp, "frr-bgp.yaml", "spines and leaves, each leaf an autonomous system (frr)"),
    template!(
        Openflow,
        "openflow.yaml",
        "a switch with a learning controller (os-ken), with all its keys",
        "openflow-learning.py"
    ),
    template!(FatTree, "fat-tree.yaml", "a data centre; SIZE: ports of a switch, 4 by default"),
    template!(CiTest, "ci-test.yaml", "a firewall, and what it is expected to do (nftables)"),
];

/// 16 ports make 320 routers and 1,024 hosts, which a machine of some GiB bears.
const LARGEST: u32 = 16;

/// `netloom new`
pub(crate) fn new(args: &New) -> Result<i32> {
    let Some(name) = args.template else {
        output::print(&list())?;
        return Ok(0);
    };
    let template = find(name);
    let by_name = || PathBuf::from(format!("{}.yaml", word(name)));
    let file = args.output.clone().unwrap_or_else(by_name);
    let text = text(template, args.size, &file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    for (beside, content) in template.beside {
        write(&folder.join(beside), content, args.force)?;
    }
    write(&file, &text, args.force)?;
    output::print(&format!("{}: written; netloom up {}\n", file.display(), file.display()))?;
    Ok(0)
}

/// `netloom example`
pub(crate) fn example(wish: &Wish, args: &Example) -> Result<i32> {
    let Some(name) = args.template else {
        output::print(&list())?;
        return Ok(0);
    };
    let template = find(name);
    let folder = Store::folder()?.with_file_name("examples");
    // Root brings up what is in it: nobody else may be able to change that.
    TrustedDir::make_in_home(&folder).with_context(|| format!("{folder:?}: create"))?;
    let file = folder.join(template.file);
    for (beside, content) in template.beside {
        write(&folder.join(beside), content, true)?;
    }
    write(&file, &text(template, args.size, &file)?, true)?;
    output::print(&format!("{}: written\n", file.display()))?;
    let importing = Importing::default();
    let up = Up {
        file,
        name: None,
        ignore_limits: args.ignore_limits,
        replace: false,
        keep: false,
        keep_drift: false,
        on: None,
        importing,
    };
    up::up(wish, &up)
}

fn list() -> String {
    let names = || TEMPLATES.iter().map(|template| word(template.name));
    let width = names().map(|name| name.len()).max().unwrap_or(0);
    let line = |template: &Template| format!("{:width$}  {}\n", word(template.name), template.what);
    let lines: String = TEMPLATES.iter().map(line).collect();
    format!("{lines}\nnetloom new NAME writes NAME.yaml; netloom example NAME brings it up\n")
}

fn find(name: TemplateName) -> &'static Template {
    TEMPLATES.iter().find(|template| template.name == name).unwrap_or(&TEMPLATES[0])
}

/// As it is written on the command line.
fn word(name: TemplateName) -> String {
    name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The lab file, whose comments name it by the path that it gets.
fn text(template: &Template, size: Option<u32>, file: &Path) -> Result<String> {
    let sized = match size {
        None => template.text.to_owned(),
        Some(size) if template.name == TemplateName::FatTree => fat_tree(size)?,
        Some(_) => return Err(Usage(format!("{}: has no SIZE", word(template.name))).into()),
    };
    let path = file.display().to_string();
    // A name with a line break would end the comment.
    let path = if path.contains(char::is_control) { template.file.to_owned() } else { path };
    Ok(sized.replace(&format!("examples/{}", template.file), &path))
}

/// The fat tree of `k` ports a switch: M. Al-Fares et al., "A scalable, commodity data center network architecture",
/// SIGCOMM 2008, section 2.2: `k` pods of `k/2` and `k/2` switches, `(k/2)^2` core switches, `k^3/4` hosts.
fn fat_tree(k: u32) -> Result<String> {
    if !(2..=LARGEST).contains(&k) || k % 2 == 1 {
        return Err(Usage(format!(
            "fat-tree: SIZE is an even number from 2 to {LARGEST}, not {k}"
        ))
        .into());
    }
    let half = k / 2;
    let (core, hosts) = (half * half, k * half * half);
    let (routers, links) = (core + k * k, 3 * hosts);
    let text = find(TemplateName::FatTree).text;
    // The comment at the file's head tells of its own size.
    let nodes = text.find("name:").map_or("", |at| &text[at..]);
    let head = format!(
        "# A fat tree of k = {k}: {k} pods of {half} aggregation and {half} edge routers, {core} core routers above\n\
         # them, {half} hosts below each edge router. {routers} routers, {hosts} hosts, {links} links.\n"
    );
    let body =
        nodes.replace("{c: 4}", &format!("{{c: {core}}}")).replace("pod: 4", &format!("pod: {k}"));
    let body = ["i", "j", "n"].iter().fold(body, |body, index| {
        body.replace(&format!(" {index}: 2"), &format!(" {index}: {half}"))
    });
    let body = body.replace("core{2*i + j}", &format!("core{{{half}*i + j}}"));
    // What a comment says of two links is right for two alone.
    Ok(head
        + &body.replace(
            "goes to core routers 2i and 2i+1",
            &format!("goes to core routers {half}i to {half}i+{}", half - 1),
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(text: &str) -> netloom_model::Lab {
        netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn every_template_is_a_lab_that_names_its_own_file() {
        for name in TemplateName::value_variants() {
            assert_eq!(find(*name).name, *name);
        }
        for template in &TEMPLATES {
            let text = text(template, None, Path::new("my lab.yaml")).unwrap();
            assert!(!lab(&text).nodes.is_empty(), "{}", template.file);
            assert!(text.starts_with("# "), "{}", template.file);
            assert!(!text.contains("examples/"), "{}: {text}", template.file);
            for (name, _) in template.beside {
                assert!(text.contains(&format!("from: {name}")), "{name}");
            }
        }
        let strange = text(&TEMPLATES[0], None, Path::new("a\nnodes: {}")).unwrap();
        assert_eq!(lab(&strange).nodes.len(), 5);
    }

    #[test]
    fn a_fat_tree_has_the_nodes_and_links_of_its_size() {
        for (k, nodes, links) in [(2, 7, 6), (4, 36, 48), (8, 208, 384), (16, 1344, 3072)] {
            let lab = lab(&fat_tree(k).unwrap());
            assert_eq!((lab.nodes.len(), lab.links.len()), (nodes, links), "{k}");
        }
        let template = find(TemplateName::FatTree);
        let (sized, file) = (fat_tree(4).unwrap(), text(template, None, Path::new("x")).unwrap());
        let words = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(lab(&sized).links.len(), lab(&file).links.len());
        assert_eq!(words(&sized).len(), words(&file).len());
    }

    #[test]
    fn a_size_that_there_is_not_is_refused() {
        let refused = |result: Result<String>| result.unwrap_err().to_string();
        for k in [0, 1, 3, 18] {
            assert!(refused(fat_tree(k)).contains("an even number from 2 to 16"), "{k}");
        }
        let two = find(TemplateName::TwoSites);
        assert_eq!(refused(text(two, Some(4), Path::new("x"))), "two-sites: has no SIZE");
    }
}
