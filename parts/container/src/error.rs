//! Failures around images: each names the image, and the layer, entry and step where there is one.

use netloom_oci::Digest;
use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure around images.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Bytes or names that are refused.
    #[error(transparent)]
    Refused(#[from] netloom_oci::Error),
    /// Something about an image that is refused.
    #[error("image {image:?}: {why}")]
    Image {
        /// Its name.
        image: String,
        /// The fault.
        why: String,
    },
    /// A registry or its network fails.
    #[error("image {image:?}: {step}: {why}")]
    Registry {
        /// The image.
        image: String,
        /// The failed step.
        step: String,
        /// What went wrong.
        why: String,
    },
    /// No such image there.
    #[error("image {image:?}: {place} has no such image")]
    NotFound {
        /// The image.
        image: String,
        /// The registry, or the file.
        place: String,
    },
    /// The registry does not give it to this user.
    #[error(
        "image {image:?}: {registry} refuses it ({why}): it may not exist, or needs a login, which is taken from {logins}"
    )]
    Denied {
        /// The image.
        image: String,
        /// The registry.
        registry: String,
        /// Its words.
        why: String,
        /// The files of logins.
        logins: String,
    },
    /// Content is not what its digest says.
    #[error("image {image:?}: {what}: its content is {found}, not {expected}")]
    Digest {
        /// The image.
        image: String,
        /// Which content.
        what: String,
        /// The digest that it should have.
        expected: String,
        /// The one that it has.
        found: String,
    },
    /// A layer that is refused for what is in it.
    #[error("image {image:?}: {why}")]
    Layer {
        /// The image.
        image: String,
        /// Layer, entry, step and cause.
        why: String,
    },
    /// A layer that this machine cannot unpack now.
    #[error("image {image:?}: {why}")]
    Unpack {
        /// The image.
        image: String,
        /// Layer, entry, step and cause.
        why: String,
    },
    /// What the process that unpacks says.
    #[error("{0}")]
    Told(String),
    /// An image that is not in the store.
    #[error("image {image:?}: is not here; get it with: netloom image pull {image}")]
    Missing {
        /// The image.
        image: String,
    },
    /// An image that a lab uses.
    #[error("image {image:?}: lab {lab:?} uses it; take that down first: netloom down {lab}")]
    InUse {
        /// The image.
        image: String,
        /// The lab.
        lab: String,
    },
    /// Another process works on the images.
    #[error("images in {0:?}: another netloom works on them; try again when it is done")]
    Busy(std::path::PathBuf),
}

impl Error {
    pub(crate) fn image(image: impl ToString, why: impl ToString) -> Error {
        Error::Image { image: image.to_string(), why: why.to_string() }
    }
}

/// Content that is not what its digest says.
pub(crate) fn wrong_digest(image: &str, what: &str, expected: &Digest, found: &Digest) -> Error {
    Error::Digest {
        image: image.to_owned(),
        what: what.to_owned(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}
