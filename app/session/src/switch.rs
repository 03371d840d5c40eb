//! Where a shared-memory switch is that a user names.

use netloom_lab::{Folder, runtime_dir};
use netloom_shm::name::{self, Address};

use crate::{Error, Result};

/// Location of a switch: in the lab `lab`, in the only lab if there is no `default`, or else as its name says.
///
/// # Errors
/// [`Error::Request`] for a name that is none, [`Error::TwoPlaces`], [`Error::NoSwitch`].
pub fn address(lab: Option<&str>, asked: &str) -> Result<Address> {
    let resolve = |text: &str| {
        name::resolve(text).map_err(|e| match e {
            netloom_shm::Error::Folder { .. } => Error::Lab(e.into()),
            other => Error::Request(other.to_string()),
        })
    };
    let bare = asked.strip_prefix(name::SCHEME).unwrap_or(asked);
    let is_plain =
        !bare.starts_with('/') && !bare.split('?').next().is_some_and(|n| n.contains('.'));
    let mut address = match lab {
        Some(lab) if is_plain => resolve(&format!("{lab}.{bare}"))?,
        Some(lab) => {
            return Err(Error::TwoPlaces { switch: asked.to_owned(), lab: lab.to_owned() });
        }
        None => resolve(asked)?,
    };
    // Names are found in no folder that is not trusted; a path needs none, and these are hints for it alone.
    let labs = || runtime_dir().and_then(|runtime| Folder::all(&runtime)).unwrap_or_default();
    if lab.is_none()
        && is_plain
        && !address.path.exists()
        && let [only] = labs().as_slice()
    {
        address = resolve(&format!("{}.{bare}", only.name()))?;
    }
    if address.path.exists() {
        return Ok(address);
    }
    let name = bare.split('?').next().and_then(|name| name.rsplit('.').next()).unwrap_or(bare);
    let hint = if labs().iter().any(|lab| lab.flow_socket(name).exists()) {
        "an OpenFlow switch has this name, which nothing joins: link a switch of kind shm to it"
    } else if labs().is_empty() {
        "no lab is running; `netloom switch create` makes one"
    } else {
        "`netloom switch list` shows those of a lab"
    };
    Err(Error::NoSwitch { switch: asked.to_owned(), path: address.path, hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_that_is_not_there_is_named() {
        let error = address(None, "/nowhere/at-all").unwrap_err().to_string();
        assert!(error.starts_with("switch \"/nowhere/at-all\": there is none at"), "{error}");
        assert!(address(Some("lab"), "other.s").unwrap_err().is_request());
        assert!(address(None, "a/b").unwrap_err().is_request());
    }
}
