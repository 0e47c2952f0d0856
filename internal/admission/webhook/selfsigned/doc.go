// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsigned issues the certificates of an admission webhook: its replicas share a
// certificate authority in a Secret, and write its certificate to the webhook configurations.
//
// It exists because a cluster should not need other software for one certificate. Two known
// failures of such authorities are avoided. A certificate may be used before the API server
// trusts its authority: a new authority is trusted for some time before it signs (see
// state.next). Two replicas may create an authority each: an update of the Secret requires
// the version that was read.
package selfsigned
