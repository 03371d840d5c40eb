//! Handlers as routers take them: paths, methods and parameters, and the schemas of bodies only for the document.
//!
//! Each request's parameters are checked by what the document says of its route, so every server has the routes' part of
//! the document. The schemas are most of it: a plan's has many others in it, and making all takes ten times as long as the rest.

use std::collections::BTreeMap;

use netloom_lab::call::{Call, Count, Describe, Parameter};
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    OperationBuilder, Parameter as Described, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{
    Content, HttpMethod, Paths, Ref, RefOr, Required, Response, ResponseBuilder, ResponsesBuilder,
};

use crate::reply::Problem;
use crate::streaming;

/// Whether a router's document has the schemas of bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Schemas {
    /// It is to be read.
    Told,
    /// It is only for routes.
    #[default]
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

/// Schemas by name.
type Named = Vec<(String, RefOr<Schema>)>;

/// The route of a call, and the schemas that it refers to.
pub(crate) fn of_call<C: Call>(method: HttpMethod, schemas: Schemas) -> (Paths, Named) {
    let operation = C::OPERATION;
    let mut told = Told { schemas, ..Told::default() };
    C::describe(&mut told);
    for (status, when) in operation.refusals {
        // The call's own words replace the usual ones for a status.
        told.refusals.insert(*status, (*when).to_owned());
    }
    let answer = told.reference::<C::Item>();
    let answer = match operation.count {
        Count::One => answer,
        Count::Many => ArrayBuilder::new().items(answer).into(),
    };
    let problem = told.reference::<Problem>();
    let mut good = with_body(operation.said, answer);
    if operation.makes {
        let place = HeaderBuilder::new().description(Some("Where it is"));
        good.headers.insert("Location".to_owned(), place.build().into());
    }
    if C::STREAMS {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let content = Content::new(Some(Schema::from(text)));
        good.content.insert(streaming::EVENTS.to_owned(), content.into());
        let last = ParameterBuilder::new()
            .name("Last-Event-ID")
            .parameter_in(ParameterIn::Header)
            .description(Some("Of a stream: only what came after the event with this id"))
            .schema(Some(Schema::from(ObjectBuilder::new().schema_type(Type::String))));
        told.parameters.push(last.build());
    }
    let status = if operation.makes { "201" } else { "200" };
    let mut responses = ResponsesBuilder::new().response(status, good);
    for (status, when) in &told.refusals {
        responses = responses.response(status.to_string(), with_body(when, problem.clone()));
    }
    let responses = responses.response("default", with_body("Not done", problem));
    let mut lines = operation.about.iter().map(|line| line.trim());
    let summary = lines.next();
    let more = lines.collect::<Vec<_>>().join(" ");
    let tag = if operation.path.starts_with("/v1/lab") { "lab" } else { "parts" };
    let described = OperationBuilder::new()
        .tag(tag)
        .operation_id(Some(operation.name))
        .summary(summary)
        .description(Some(more.trim()).filter(|more| !more.is_empty()))
        .parameters(Some(told.parameters).filter(|all| !all.is_empty()))
        .request_body(told.body)
        .responses(responses.build())
        .extensions(Some(Extensions::builder().add("x-rights", operation.rights.word()).build()));
    let mut paths = Paths::new();
    paths.add_path_operation(operation.path, vec![method], described);
    (paths, told.all)
}

/// A response with a JSON body.
fn with_body(description: &str, schema: RefOr<Schema>) -> Response {
    let content = Content::new(Some(schema));
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// What the values of a call have told.
#[derive(Default)]
struct Told {
    schemas: Schemas,
    all: Named,
    parameters: Vec<Described>,
    body: Option<RequestBody>,
    refusals: BTreeMap<u16, String>,
}

impl Told {
    /// A reference to a schema.
    fn reference<T: ToSchema>(&mut self) -> RefOr<Schema> {
        if self.schemas == Schemas::Told {
            self.all.push((T::name().into_owned(), T::schema()));
            T::schemas(&mut self.all);
        }
        Ref::from_schema_name(T::name()).into()
    }

    fn parameter<T: Parameter>(&mut self, name: &str, about: &[&str], place: ParameterIn) {
        let required = if T::REQUIRED { Required::True } else { Required::False };
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(required)
            .description(Some(lines(about)))
            .schema(Some(T::schema()));
        self.parameters.push(parameter.build());
        if let Some(unknown) = T::UNKNOWN {
            self.refusals.entry(404).or_insert_with(|| unknown.to_owned());
        }
    }

    fn refused(&mut self, when: &str) {
        self.refusals.insert(400, when.to_owned());
    }
}

fn lines(about: &[&str]) -> String {
    about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

impl Describe for Told {
    fn path<T: Parameter>(&mut self, name: &str, about: &[&str]) {
        self.parameter::<T>(name, about, ParameterIn::Path);
    }

    fn query<T: Parameter>(&mut self, name: &str, about: &[&str]) {
        self.parameter::<T>(name, about, ParameterIn::Query);
        self.refused("A parameter cannot be used");
    }

    fn body<T: ToSchema>(&mut self, _: &str, about: &[&str]) {
        let content = Content::new(Some(self.reference::<T>()));
        let body = RequestBodyBuilder::new().description(Some(lines(about)));
        let body = body.required(Some(Required::True)).content("application/json", content);
        self.body = Some(body.build());
        self.refused("The body or a setting cannot be used");
    }
}
