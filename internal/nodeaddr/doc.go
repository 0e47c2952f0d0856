// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeaddr gives a node addresses of its own: a network interface that leads
// nowhere (Linux's dummy driver), with the addresses that pods send their queries to.
//
// It exists because these addresses are on no network card, and must be there before a
// server can listen on them. Each step says how things are to be, so that it does not
// matter what was there before.
package nodeaddr
