//! Reads a node's image: `image`, `pull`, `entrypoint`, `cmd`.

use netloom_config::{Kind, Node as Yaml, Path, Report, quote, read};
use netloom_oci::Source;

use super::common::line;
use crate::file::values::non_empty;
use crate::file::{Fields, choice};
use crate::image::{ImageUse, PullWhen, WORDS};
use crate::keys::NODE;

/// Keys that only a node with an image has.
const OF_IMAGES: [&str; 3] = ["pull", "entrypoint", "cmd"];

/// Reads these keys.
pub(super) fn image(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Option<ImageUse> {
    let Some(value) = fields.get("image") else {
        for key in OF_IMAGES {
            let Some(value) = fields.get(key) else { continue };
            let message = format!("{}: only a node with an `image` has this", path.key(key));
            report.error(value.place, message);
        }
        return None;
    };
    if let Some(root) = fields.get("root") {
        let message = format!("{}: `image` and `root` exclude each other", path.key("root"));
        report.error(root.place, message);
    }
    let name = name(value, &path.key("image"), report);
    let pull = fields.get("pull").and_then(|v| {
        PullWhen::of_word(choice(v, &path.key("pull"), (&NODE, "pull"), &WORDS, report)?)
    });
    let list = |key: &str, report: &mut Report| {
        let value = fields.get(key)?;
        if let Some(run) = fields.get("run") {
            let message = format!("{}: `run` and `{key}` exclude each other", path.key("run"));
            report.error(run.place, message);
        }
        arguments(value, &path.key(key), report)
    };
    let (entrypoint, cmd) = (list("entrypoint", report), list("cmd", report));
    let starts = fields.get("run").is_none();
    Some(ImageUse { name: name?, pull: pull.unwrap_or_default(), starts, entrypoint, cmd })
}

/// The name of an image, in the form that the store has.
fn name(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let text = non_empty(value, path, report)?;
    match text.parse::<Source>() {
        Ok(source) => Some(source.to_string()),
        Err(netloom_oci::Error::Name { text, why }) => {
            report.error(value.place, format!("{path}: {} is not an image: {why}", quote(&text)));
            None
        }
        Err(other) => {
            report.error(value.place, format!("{path}: {other}"));
            None
        }
    }
}

/// Arguments; an empty list is one, too.
fn arguments(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Vec<String>> {
    if value.kind == Kind::Str {
        return line(value, path, report);
    }
    if value.items().is_none() {
        let help = "arguments are a list or a line: [sleep, inf] or sleep inf".to_owned();
        let message = format!("{path}: expected arguments, found {}", value.describe());
        report.error_with(value.place, message, Some(help));
        return None;
    }
    read::texts(value, path, report)
}

#[cfg(test)]
mod tests {
    use crate::image::PullWhen;
    use crate::parse::tests::errors_of_node as errors;

    #[test]
    fn an_image_is_named_in_full_form() {
        let text = b"nodes: {a: {image: alpine, pull: never, cmd: sleep 1d}, b: {image: \"oci:x:1\", run: []}}";
        let lab = crate::parse("f", text, "f").unwrap();
        let image = lab.nodes[0].image.as_ref().unwrap();
        assert_eq!((image.name.as_str(), image.pull), ("alpine:latest", PullWhen::Never));
        assert_eq!((image.starts, image.cmd.as_ref().unwrap().len()), (true, 2));
        let image = lab.nodes[1].image.as_ref().unwrap();
        assert_eq!((image.name.as_str(), image.starts), ("oci:x:1", false));
    }

    #[test]
    fn what_an_image_cannot_have_is_refused_by_name() {
        for (body, part) in [
            (
                "image: Alpine",
                "nodes.a.image: \"Alpine\" is not an image: names of images are in lower",
            ),
            ("image: ''", "nodes.a.image"),
            ("image: a, root: b", "nodes.a.root: `image` and `root` exclude each other"),
            ("pull: never", "nodes.a.pull: only a node with an `image` has this"),
            ("image: a, pull: sometimes", "nodes.a.pull: expected one of missing, always, never"),
            ("image: a, cmd: 5", "nodes.a.cmd: expected arguments, found 5"),
            ("image: a, cmd: sleep 1; b", "nodes.a.cmd: `;` means something only to a shell"),
            ("image: a, cmd: [b], run: [[c]]", "nodes.a.run: `run` and `cmd` exclude each other"),
            ("kind: vm, accel: uml, image: a", "nodes.a.image: a virtual machine has"),
        ] {
            let all = errors(body);
            assert!(all.iter().any(|e| e.contains(part)), "{body}: {all:?}");
        }
    }
}
