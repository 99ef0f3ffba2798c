//! The endpoints of the HTTP API, one file per group of routes, and the types of their bodies.

pub(crate) mod assets;
pub(crate) mod boxes;
pub(crate) mod extract;
pub(crate) mod factors;
pub(crate) mod hierarchy;
pub(crate) mod hits;
pub(crate) mod info;
pub(crate) mod map;
pub(crate) mod map_cone;
pub(crate) mod map_labels;
pub(crate) mod map_links;
pub(crate) mod map_page;
pub(crate) mod map_points;
pub(crate) mod map_requests;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod photos;
pub(crate) mod predict;
pub(crate) mod query;
pub(crate) mod replies;
pub(crate) mod requests;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod thumbnails;
pub(crate) mod traverse;
pub(crate) mod tree;
