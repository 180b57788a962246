//! Routes that know their paths, so that they can be held against the
//! document that describes them.

use axum::Router;
use axum::routing::MethodRouter;

use crate::ApiState;

/// Some routes.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<ApiState>,
    paths: Vec<String>,
}

impl Routes {
    /// No routes.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// With the methods of one path.
    pub(crate) fn route(mut self, path: &str, methods: MethodRouter<ApiState>) -> Self {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
        self.router = self.router.route(path, methods);
        self
    }

    /// With a path at which everything is refused, and in a better way than
    /// where nothing is.
    pub(crate) fn refused(mut self, path: &str, methods: MethodRouter<ApiState>) -> Self {
        self.router = self.router.route(path, methods);
        self
    }

    /// With others.
    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.paths.extend(others.paths);
        self.router = self.router.merge(others.router);
        self
    }

    /// The paths at which something is.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The routes themselves.
    pub(crate) fn into_router(self) -> Router<ApiState> {
        self.router
    }
}
