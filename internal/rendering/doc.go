// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package rendering decides the DNS configuration of the pods of manifests, for the command render.
// It joins what the decision on a node never needs together: the engine, the refusals of the API
// server, and the names that controllers generate.
package rendering
