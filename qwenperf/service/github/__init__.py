"""Tells GitHub of what arrives in linked projects: a check run on the commit, one comment on its pull request."""
