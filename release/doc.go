// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command release builds what is published of a version: the container image, archives for
// each platform, packages for Debian and RPM systems, SBOMs and checksums. It needs Go and
// git, and neither a container engine nor the network once its modules are downloaded. With publish it
// pushes image and chart to a registry; .github/workflows/release.yml has the other steps.
//
// The version is the one that Go stamps into the binary from the git tag. Times in the
// results are that of the commit: the same commit and the same Go give the same bytes.
package main
