"""Stands in for @rules_proto//proto:defs.bzl with Bazel's built-in protocol buffer rules."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library

# The provider is a global, not a member of `native`.
ProtoInfo = ProtoInfo
