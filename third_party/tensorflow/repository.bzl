"""Makes an installed TensorFlow wheel a Bazel repository.

The environment variable FASTHVD_PYTHON names the Python that will load the op library; without it,
python3 on the PATH is asked.
"""

def _tensorflow_repository_impl(ctx):
    name = ctx.os.environ.get("FASTHVD_PYTHON") or "python3"
    python = ctx.path(name) if "/" in name else ctx.which(name)
    if python == None or not python.exists:
        fail("Python \"%s\" was not found. Set FASTHVD_PYTHON to the Python that has TensorFlow." % name)

    result = ctx.execute([python, ctx.path(ctx.attr._describe)], timeout = 120)
    if result.return_code != 0:
        fail(result.stderr.strip())

    # TensorFlow may print before us, so take the last line only.
    info = json.decode(result.stdout.strip().split("\n")[-1])

    ctx.symlink(info["include"], "include")
    ctx.symlink(info["lib"] + "/" + info["framework"], info["framework"])
    ctx.template("BUILD", ctx.attr._build_template, {
        "{DEFINES}": repr(info["defines"]),
        "{FRAMEWORK}": info["framework"],
        "{VERSION}": info["version"],
    })

tensorflow_repository = repository_rule(
    implementation = _tensorflow_repository_impl,
    attrs = {
        "_build_template": attr.label(default = "//third_party/tensorflow:tensorflow.BUILD.tpl"),
        "_describe": attr.label(default = "//third_party/tensorflow:describe.py"),
    },
    # setup.py sets FASTHVD_TENSORFLOW to the version it found, so that an upgrade in place is seen.
    environ = ["FASTHVD_PYTHON", "FASTHVD_TENSORFLOW"],
    local = True,
)
