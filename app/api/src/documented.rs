//! Handlers as routers take them: paths, methods and parameters, and the schemas of bodies only for the document.
//!
//! Each request's parameters are checked by what the document says of its route, so every server has the routes' part of
//! the document. The schemas are most of it: a plan's has many others in it, and making all takes ten times as long as the rest.

/// Whether a router's document has the schemas of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schemas {
    /// It is to be read.
    Told,
    /// It is only for routes.
    LeftOut,
}

/// As `utoipa_axum::routes!`, which always makes the schemas: `routes!(SCHEMAS; HANDLER, ...)`.
macro_rules! routes {
    ($told:expr; $($handler:path),+) => {{
        use utoipa_axum::PathItemExt as _;
        let mut paths = utoipa::openapi::path::Paths::new();
        let mut schemas = Vec::new();
        let mut methods = axum::routing::MethodRouter::new();
        $(utoipa_axum::paste! {
            let path = utoipa_axum::routes!(@path [path()] of $handler);
            let mut operation = utoipa_axum::routes!(@path [operation()] of $handler);
            let types = utoipa_axum::routes!(@path [methods()] of $handler);
            let tags = utoipa_axum::routes!(@path [tags()] of $handler);
            if $told == $crate::documented::Schemas::Told {
                utoipa_axum::routes!(@path [schemas(&mut schemas)] of $handler);
            }
            operation.tags.get_or_insert_default().extend(tags.iter().map(ToString::to_string));
            for kind in &types {
                methods = methods.on(kind.to_method_filter(), $handler);
            }
            paths.add_path_operation(&path, types, operation);
        })+
        (schemas, paths, methods)
    }};
}
pub(crate) use routes;
