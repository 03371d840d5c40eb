//! The head of the OpenAPI document: information on the API as a whole.

use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "netloom",
        description = "A running lab, over the UNIX socket `api.sock` (mode 0600) in the lab's \
                       folder. It answers root and the owner of the lab. Request bodies are JSON \
                       in UTF-8, whatever type they are said to have, and not compressed; where none is \
                       described it is not used. One of more than 64 KiB is refused (8 MiB for `/pnpm/`; \
                       for a plan twice the size of the lab's, from 16 to 256 MiB); large ones share a \
                       memory, and are answered 503 while others use it. A parameter that is not \
                       described is refused, and so is a key that is there twice. \
                       Numbers may be above 2^53, which some readers of JSON round. A name in \
                       a path has all but letters, digits and `-._~` as `%XX`. What is under `/pnpm/` \
                       is served by `netloom serve`, too, over TCP, with `Authorization: Bearer TOKEN`; \
                       there every path may have or lack the `/` at its end.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "lab", description = "The whole lab"),
        (name = "parts", description = "Nodes, links, switches"),
        (name = "measure", description = "Measurements by alternate marking (RFC 9341)"),
        (name = "document", description = "The API itself"),
    )
)]
struct Document;

/// Title and tags, no routes yet.
pub(crate) fn empty_document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
