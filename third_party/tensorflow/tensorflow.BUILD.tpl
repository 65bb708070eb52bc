package(default_visibility = ["//visibility:public"])

# Headers are included as system headers, so that their warnings stay out of our builds.
cc_library(
    name = "headers_and_lib",
    srcs = ["{FRAMEWORK}"],
    hdrs = glob([
        "include/**/*.h",
        "include/**/*.hpp",
        "include/**/*.inc",
        "include/**/*.def",
        "include/Eigen/**",
        "include/unsupported/**",
    ]),
    defines = {DEFINES} + ["TF_FASTHVD_TENSORFLOW_VERSION=\\\"{VERSION}\\\""],
    includes = ["include"],
)
