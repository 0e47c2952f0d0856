// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli has the work of the offline commands validate, render, rules, config check and import-corefile, which
// join what a server never needs together: manifests, the policy engine, the rules of admission and the refusals of
// the API server, the checks of doctor, Corefiles, and configuration files of any kind. A file is checked as the
// process that reads it does, without running this process.
package cli
