//! The failure that every crate shares: object, operation and cause.
//!
//! Crates keep it in a transparent variant of their error, beside the variants that callers tell apart. It shows
//! `object: operation`; [`crate::describe`] appends the causes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::iter::successors;
use std::path::Path;

use rustix::io::Errno;

/// An operation on an object that failed.
#[derive(Debug)]
pub struct Failure(Box<Parts>);

/// Boxed, so that results stay small.
#[derive(Debug)]
struct Parts {
    object: String,
    operation: Cow<'static, str>,
    /// Never an [`Errno`]: those become [`io::Error`]s.
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// A failure of `operation` on `object`.
    pub fn new(
        object: impl Into<String>,
        operation: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Failure {
        let source = match source.into().downcast::<Errno>() {
            Ok(errno) => Box::new(io::Error::from(*errno)),
            Err(other) => other,
        };
        Failure(Box::new(Parts { object: object.into(), operation: operation.into(), source }))
    }

    /// A failure of `operation` on a path.
    pub fn path(
        path: impl AsRef<Path>,
        operation: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Failure {
        Failure::new(format!("{:?}", path.as_ref()), operation, source)
    }

    /// For `map_err`: turns a cause into a failure of `operation` on `object`.
    pub fn of<S: Into<Box<dyn Error + Send + Sync>>>(
        object: impl Into<String>,
        operation: impl Into<Cow<'static, str>>,
    ) -> impl Fn(S) -> Failure {
        let (object, operation) = (object.into(), operation.into());
        move |source| Failure::new(object.clone(), operation.clone(), source)
    }

    /// The operation tried, e.g. `start`.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The kernel's error number behind it; `None` if the kernel refused nothing.
    pub fn raw_os_error(&self) -> Option<i32> {
        let first: &(dyn Error + 'static) = &*self.0.source;
        successors(Some(first), |cause| (**cause).source())
            .find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.object, self.0.operation)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe;

    #[test]
    fn a_failure_shows_object_operation_and_cause() {
        let failure = Failure::new("node \"a\"", "start", Errno::NOENT);
        let words = io::Error::from(Errno::NOENT);
        assert_eq!(failure.to_string(), "node \"a\": start");
        assert_eq!(describe(&failure), format!("node \"a\": start: {words}"));
        let path = Failure::path("/a b", "read", "not text");
        assert_eq!(describe(&path), "\"/a b\": read: not text");
    }

    #[test]
    fn the_kernel_s_number_is_found_at_any_depth() {
        let inner = Failure::new("socket", "bind", Errno::ADDRINUSE);
        let outer = Failure::of("switch", "listen")(crate::Error::from(inner));
        assert_eq!(outer.raw_os_error(), Some(Errno::ADDRINUSE.raw_os_error()));
        assert_eq!(Failure::new("a", "b", "words").raw_os_error(), None);
    }
}
