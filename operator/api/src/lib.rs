//! castellan-api
