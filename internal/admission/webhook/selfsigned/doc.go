// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package selfsigned gives an admission webhook certificates without anybody's help: its
// replicas share an authority of their own, in a Secret, and tell the API server to trust
// it, in the webhook configurations.
//
// It exists because most clusters want no other software for one certificate, and because
// the ways in which such authorities fail are known: a certificate that the API server
// does not trust yet, and two replicas that make an authority each. So a new authority is
// trusted a while before it signs (see [State.Next]), and the Secret is written only over
// the version that was read.
package selfsigned
