//! Reads the keys of a switch of kind `openflow`.
//!
//! [`read`] reads single values; [`RawOpenflow::finish`] checks that the nodes of controllers exist, which needs
//! the whole lab.

use netloom_config::{Node as Yaml, Path, Place, Report, quote, read};

use super::{
    Controller, DatapathId, FailMode, MOST_AUXILIARY, MOST_CONTROLLERS, MOST_ENTRIES, MOST_TABLES,
    OpenflowSwitch, OpenflowVersion, TlsFiles, keys::TLS,
};
use crate::file::Fields;
use crate::file::values::{At, each_or_only};
use crate::kinds::Around;

/// An OpenFlow switch as read, with values that are checked when the whole file is known.
#[derive(Debug, Default)]
pub(crate) struct RawOpenflow {
    options: OpenflowSwitch,
    /// The nodes of controllers.
    nodes: Vec<At<String>>,
    datapath: Option<Place>,
    /// Where `fail: standalone` stands.
    standalone: Option<Place>,
}

/// Reads the keys of this kind.
pub(crate) fn read(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> RawOpenflow {
    let mut raw = RawOpenflow::default();
    if let Some(value) = fields.get("controllers") {
        let read = controllers(value, &path.key("controllers"), report);
        (raw.options.controllers, raw.nodes) = read;
    }
    let options = &mut raw.options;
    options.fail = match fields.get("fail") {
        Some(value) => fail(value, &path.key("fail"), report).unwrap_or_default(),
        None if options.controllers.is_empty() => FailMode::Standalone,
        None => FailMode::Secure,
    };
    // Only where the file says so itself: slices refuse it there, and change it elsewhere.
    let standalone = options.fail == FailMode::Standalone;
    raw.standalone = fields.get("fail").filter(|_| standalone).map(|value| value.place);
    if let Some(value) = fields.get("versions") {
        options.versions = versions(value, &path.key("versions"), report);
    }
    if let Some(value) = fields.get("datapath") {
        options.datapath = datapath(value, &path.key("datapath"), report);
        raw.datapath = Some(value.place);
    }
    if let Some(value) = fields.get("tables") {
        let tables = number(value, &path.key("tables"), MOST_TABLES.into(), report);
        options.tables = tables.unwrap_or(options.tables);
    }
    if let Some(value) = fields.get("max-entries") {
        let entries = number(value, &path.key("max-entries"), MOST_ENTRIES, report);
        options.max_entries = entries.unwrap_or(options.max_entries);
    }
    if let Some(value) = fields.get("auxiliary") {
        let count =
            read::integer(value, &path.key("auxiliary"), 0..=i64::from(MOST_AUXILIARY), report);
        options.auxiliary = count.and_then(|n| u8::try_from(n).ok()).unwrap_or_default();
    }
    match fields.get("tls") {
        Some(value) => options.tls = tls(value, &path.key("tls"), report),
        None => refuse_without_tls(fields, path, &options.controllers, report),
    }
    raw
}

/// The files of a key `tls`.
pub(crate) fn tls(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<TlsFiles> {
    let fields = Fields::open(value, path, &TLS, report)?;
    let mut text = |key: &'static str| {
        let value = fields.get(key)?;
        let text = read::text(value, &path.key(key), report)?;
        if text.is_empty() {
            report.error(value.place, format!("{}: it is empty", path.key(key)));
        }
        Some(text.to_owned())
    };
    // All four are read before one that is missing ends this, so that each error is told.
    let (authorities, name) = (text("authorities"), text("name"));
    let (certificate, key) = (text("certificate"), text("key"));
    if certificate.is_some() != key.is_some() {
        let message = format!("{path}: `certificate` and `key` go together");
        report.error(value.place, message);
    }
    Some(TlsFiles {
        authorities: authorities?.into(),
        certificate: certificate.map(Into::into),
        key: key.map(Into::into),
        name,
    })
}

/// Nobody could tell whether such a controller is the right one.
pub(crate) fn refuse_without_tls(
    fields: &Fields<'_>,
    path: &Path<'_>,
    controllers: &[Controller],
    report: &mut Report,
) {
    let secure = controllers.iter().find(|controller| controller.is_tls());
    if let (Some(controller), Some(value)) = (secure, fields.get("controllers")) {
        let help =
            "tls: {authorities: FILE} names the certificates of the authorities that sign for it"
                .to_owned();
        let message = format!("{}: {controller} needs the key `tls`", path.key("controllers"));
        report.error_with(value.place, message, Some(help));
    }
}

fn number<N: TryFrom<i64>>(
    value: &Yaml,
    path: &Path<'_>,
    most: u32,
    report: &mut Report,
) -> Option<N> {
    read::integer(value, path, 1..=i64::from(most), report).and_then(|n| N::try_from(n).ok())
}

/// One or a list; on a command line several stand in one text, with commas between them.
/// Returns them, and the nodes that they are in.
pub(crate) fn controllers(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
) -> (Vec<Controller>, Vec<At<String>>) {
    let (mut found, mut nodes) = (vec![], vec![]);
    each_or_only(value, path, report, |item, path, report| {
        let Some(text) = read::text(item, path, report) else { return };
        for one in text.split(',').map(str::trim) {
            match one.parse::<Controller>() {
                Ok(controller) if found.contains(&controller) => {
                    report.error(item.place, format!("{path}: {controller} is given twice"));
                }
                Ok(controller) => {
                    let node = controller.node().map(str::to_owned);
                    nodes.extend(node.map(|value| At { value, place: item.place }));
                    found.push(controller);
                }
                Err(error) => {
                    report.error(item.place, format!("{path}: {}: {error}", quote(one)));
                }
            }
        }
    });
    let has = found.len();
    if has > MOST_CONTROLLERS {
        let message = format!("{path}: {has} controllers, at most {MOST_CONTROLLERS} are possible");
        report.error(value.place, message);
    }
    (found, nodes)
}

/// Reports nodes of controllers that do not exist.
pub(crate) fn check_nodes(
    nodes: &[At<String>],
    is_node: &dyn Fn(&str) -> bool,
    report: &mut Report,
) {
    for node in nodes.iter().filter(|node| !is_node(&node.value)) {
        let help = "the controller is in a node of the lab; node:NAME names it".to_owned();
        let shown = quote(&node.value);
        report.error_with(node.place, format!("controllers: no node {shown} here"), Some(help));
    }
}

fn fail(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<FailMode> {
    let modes = [FailMode::Secure, FailMode::Standalone];
    let word = read::choice(value, path, &modes.map(FailMode::word), report)?;
    modes.into_iter().find(|mode| mode.word() == word)
}

/// Each version once, the lowest first.
fn versions(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<OpenflowVersion> {
    let all = [OpenflowVersion::V10, OpenflowVersion::V13];
    let mut found = Vec::new();
    each_or_only(value, path, report, |item, path, report| {
        let words = all.map(OpenflowVersion::word);
        let words_of = |text: &str| words.iter().position(|word| *word == text.trim());
        let texts = read::scalar(item).map_or_else(Vec::new, |text| text.split(',').collect());
        let read: Option<Vec<usize>> = texts.into_iter().map(words_of).collect();
        match read.filter(|read| !read.is_empty()) {
            Some(read) => found.extend(read.into_iter().map(|at| all[at])),
            None => {
                let message = format!(
                    "{path}: expected one of {}, found {}",
                    words.join(", "),
                    item.describe()
                );
                report.error(item.place, message);
            }
        }
    });
    // The plan requires them in order, and an order in the file has no meaning.
    found.sort_unstable();
    found.dedup();
    found
}

fn datapath(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<DatapathId> {
    let id = read::scalar(value).and_then(|text| text.parse().ok());
    if id.is_none() {
        let what = "a datapath id, 64 bits and not 0, like 0x1 or 00:00:00:00:00:00:00:01";
        read::expected(value, path, what, report);
    }
    id
}

impl RawOpenflow {
    /// The datapath id that the file gives, with its place.
    pub(crate) fn datapath(&self) -> Option<(DatapathId, Place)> {
        Some((self.options.datapath?, self.datapath?))
    }

    /// Where the file says that it forwards by itself without a controller.
    pub(crate) fn standalone(&self) -> Option<Place> {
        self.standalone
    }

    /// Whether it forwards by its entries alone.
    pub(crate) fn is_secure(&self) -> bool {
        self.options.fail == FailMode::Secure
    }

    /// Checks that the nodes of controllers exist.
    pub(crate) fn finish(&self, around: &Around<'_>, report: &mut Report) -> OpenflowSwitch {
        check_nodes(&self.nodes, around.is_node, report);
        self.options.clone()
    }
}
