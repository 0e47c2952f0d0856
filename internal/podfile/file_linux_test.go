// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	sandbox  = "5e1f"
	firstDNS = "nameserver 169.254.20.10\nsearch search.shop.cluster.local.ap.k8s.io\noptions ndots:5\n"
	otherDNS = "nameserver 10.96.0.10\nsearch shop.svc.cluster.local\noptions ndots:2\n"
)

// newFile writes the kubelet's text into a file as containerd has it, below directory.
func newFile(t *testing.T, directory, text string) (path string) {
	t.Helper()
	path = filepath.Join(directory, sandbox, "resolv.conf")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	return path
}

func openFile(t *testing.T, directory, path string) *File {
	t.Helper()
	f := must.Get(Open([]string{"/nonexistent", directory}, sandbox, path))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// parsesAs reports whether text has the configuration dns.
func parsesAs(text []byte, dns string) bool {
	return resolvconf.Parse(string(text)).Config().Equal(resolvconf.Parse(dns).Config())
}

// TestRestore writes the kubelet's text back after some rewrites, and then replaces it again.
func TestRestore(t *testing.T) {
	for _, kubelet := range []string{kubeletText, strings.TrimSuffix(kubeletText, "\n")} {
		directory := t.TempDir()
		path := newFile(t, directory, kubelet)
		f := openFile(t, directory, path)
		original := []byte(kubelet)
		for i, dns := range []string{firstDNS, otherDNS, firstDNS, "", otherDNS} {
			old, err := f.Read()
			if i > 0 {
				var ok bool
				if original, ok = Original(old); !ok || string(original) != kubelet {
					t.Fatalf("original %q, %t, want %q", original, ok, kubelet)
				}
			}
			if dns == "" {
				err = errors.Join(err, f.Restore(old, original))
			} else {
				err = errors.Join(err, f.Replace(old, dns, original))
			}
			text, readErr := os.ReadFile(path)
			if err := errors.Join(err, readErr); err != nil || len(text) < len(old) {
				t.Fatalf("%v, %d bytes, before %d", err, len(text), len(old))
			}
			if dns == "" && (OriginOf(text) != Restored || !bytes.Contains(text, []byte(kubeletText)) || !parsesAs(text, kubelet)) {
				t.Errorf("the restored file:\n%s", text)
			}
		}
	}
}

// TestCreate creates a file that is missing, and no directory. All users can read the file, also if
// the umask is that of the shim's unit.
func TestCreate(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	directory := t.TempDir()
	path := newFile(t, directory, kubeletText)
	if _, err := Create([]string{directory}, sandbox, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	must.Succeed(t, os.Remove(path))
	f := must.Get(Create([]string{directory}, sandbox, path))(t)
	f.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	must.Succeed(t, os.RemoveAll(filepath.Dir(path)))
	if _, err := Create([]string{directory}, sandbox, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a sandbox that was removed: %v", err)
	}
}

// TestIsAsCreated: only what changes a file later than its creation shows. The file is empty, so that
// it is created in one system call.
func TestIsAsCreated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		want   bool
	}{
		"created":            {func(string) error { return nil }, true},
		"read":               {func(path string) error { _, err := os.ReadFile(path); return err }, true},
		"written":            {func(path string) error { return os.WriteFile(path, []byte(otherDNS), 0o644) }, false},
		"written alike":      {func(path string) error { return os.WriteFile(path, nil, 0o644) }, false},
		"another mode":       {func(path string) error { return os.Chmod(path, 0o600) }, false},
		"its times set back": {func(path string) error { return os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			path := newFile(t, directory, "")
			time.Sleep(creationTime + 10*time.Millisecond)
			must.Succeed(t, c.change(path))
			f := must.Get(Open([]string{directory}, sandbox, path))(t)
			defer f.Close()
			if got := f.IsAsCreated(); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// TestReplace_Changed: a text that the pod changed is not replaced.
func TestReplace_Changed(t *testing.T) {
	directory := t.TempDir()
	path := newFile(t, directory, "nameserver 203.0.113.66\n")
	if err := openFile(t, directory, path).Replace([]byte(kubeletText), firstDNS, []byte(kubeletText)); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v, want %v", err, ErrChanged)
	}
	if text, err := os.ReadFile(path); string(text) != "nameserver 203.0.113.66\n" {
		t.Errorf("the file was replaced: %q, %v", text, err)
	}
}

// TestOpen_Foreign opens what is not the file of the sandbox, as a hostile pod or a broken
// runtime would present it.
func TestOpen_Foreign(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "sandboxes")
	secret := newFile(t, t.TempDir(), "secret")
	path := filepath.Join(directory, sandbox, "resolv.conf")
	for name, create := range map[string]func() error{
		"link":           func() error { return os.Symlink(secret, path) },
		"relative link":  func() error { return os.Symlink("../../x", path) },
		"second name":    func() error { return os.Link(secret, path) },
		"directory":      func() error { return os.Mkdir(path, 0o755) },
		"FIFO":           func() error { return unix.Mkfifo(path, 0o644) },
		"socket":         func() error { return unix.Mknod(path, unix.S_IFSOCK|0o644, 0) },
		"missing":        func() error { return nil },
		"link to itself": func() error { return os.Symlink("resolv.conf", path) },
		"linked sandbox": func() error {
			return errors.Join(os.Remove(filepath.Dir(path)), os.Symlink(filepath.Dir(secret), filepath.Dir(path)))
		},
		"no directories": func() error { return os.RemoveAll(directory) },
		"leased": func() error { // open(2) would wait for 45 seconds
			leased, err := os.Open(newFile(t, directory, kubeletText))
			if err != nil {
				return err
			}
			t.Cleanup(func() { leased.Close() })
			_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Succeed(t, errors.Join(os.RemoveAll(directory), os.MkdirAll(filepath.Dir(path), 0o755), create()))
			if f, err := Open([]string{directory}, sandbox, path); err == nil {
				t.Error("no error")
				f.Close()
			} else if _, isPath := errors.AsType[*fs.PathError](err); !isPath && !errors.Is(err, ErrForeign) {
				t.Errorf("got %v", err)
			}
		})
	}
	if text, err := os.ReadFile(secret); string(text) != "secret" {
		t.Errorf("the other file has changed: %q, %v", text, err)
	}
}

// TestOpen_Path opens paths that are not those of a sandbox.
func TestOpen_Path(t *testing.T) {
	directory := t.TempDir()
	newFile(t, directory, kubeletText)
	nested := filepath.Join(directory, sandbox, "userdata", "resolv.conf")
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Dir(nested), 0o755), os.WriteFile(nested, []byte(kubeletText), 0o644)))
	for _, c := range []struct {
		sandbox, path string
		ok            bool
	}{
		{sandbox, directory + "/5e1f/resolv.conf", true},
		{sandbox, directory + "/5e1f/userdata/resolv.conf", true},
		{sandbox, directory + "/5e1f/hosts", false},
		{sandbox, directory + "/5e1f", false},
		{sandbox, directory + "/5e1f//resolv.conf", false},
		{sandbox, directory + "/5e1f/../5e1f/resolv.conf", false},
		{"5e1f/userdata", directory + "/5e1f/userdata/resolv.conf", false},
		{"5e1", directory + "/5e1f/resolv.conf", false},
		{"", directory + "//resolv.conf", false},
		{".", directory + "/./resolv.conf", false},
		{"..", directory + "/../resolv.conf", false},
		{sandbox, "/etc/resolv.conf", false},
		{sandbox, "5e1f/resolv.conf", false},
		{sandbox, "", false},
	} {
		f, err := Open([]string{directory + "/"}, c.sandbox, c.path)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("sandbox %q, path %q: %v", c.sandbox, c.path, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// TestReplace_Large: a file of more than a page is left unchanged.
func TestReplace_Large(t *testing.T) {
	directory := t.TempDir()
	for n, want := range map[int]error{MaxSize: nil, MaxSize + 1: ErrTooLarge} {
		f := openFile(t, directory, newFile(t, directory, strings.Repeat("#\n", MaxSize)[:n]))
		old, err := f.Read()
		if err == nil {
			err = f.Replace(old, firstDNS, old)
		}
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", n, err, want)
		}
	}
}

// mountTmpfs returns a directory with a file system of some pages.
func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	directory := t.TempDir()
	must.Succeed(t, unix.Mount("tmpfs", directory, "tmpfs", 0, "size="+size))
	t.Cleanup(func() {
		if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// TestReplace_ReadOnly: a read-only file system is an error.
func TestReplace_ReadOnly(t *testing.T) {
	directory := mountTmpfs(t, "64k")
	path := newFile(t, directory, kubeletText)
	must.Succeed(t, unix.Mount("", directory, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := Open([]string{directory}, sandbox, path); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want %v", err, unix.EROFS)
	}
}

// readerTexts are written one after another: with one to three nameservers, and search lines of one to
// three slots and of more than 254 bytes.
func readerTexts() (texts []string) {
	for i, searches := range []string{
		"shop.svc.cluster.local", "a-longer.domain.example b.example c.example", strings.Repeat("eu.corp.example ", 6) + "x.example",
		strings.Repeat("ab.cd ", 25) + "y.example", strings.Repeat("abc.de ", 40) + "z.example", "one.example",
		strings.Repeat("abcd.ef ", 60) + "w.example", strings.Repeat("us.corp.example ", 9) + "v.example",
	} {
		var text string
		for n := range []int{1, 1, 2, 3, 3, 1, 2, 1}[i] {
			text += fmt.Sprintf("nameserver 10.%d.0.%d\n", 96+11*i, 10+n)
		}
		texts = append(texts, fmt.Sprintf("%ssearch %s\noptions ndots:%d\n", text, searches, 1+i%3))
	}
	return texts
}

// knownLines returns the lines of texts, and the empty line.
func knownLines(texts ...string) map[string]bool {
	known := map[string]bool{"\n": true, "": true}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			known[line] = true
		}
	}
	return known
}

// foreignLine returns a line of text that is neither known nor a comment, or "".
func foreignLine(text []byte, known map[string]bool) string {
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !known[line] {
			return line
		}
	}
	return ""
}

// replacements calls check with all pairs of texts: the old file, and the texts that replace it. Old files
// are of the runtime, written, and restored.
func replacements(t *testing.T, check func(known map[string]bool, old []byte, texts [][]byte)) {
	t.Helper()
	all := append(readerTexts(), kubeletText)
	for _, before := range all {
		written, err1 := compose([]byte(before), []byte(kubeletText), []byte(kubeletText), false)
		restored, err2 := compose([]byte(before), []byte(before), written[len(written)-1], true)
		must.Succeed(t, errors.Join(err1, err2))
		for _, after := range all {
			cut, last := []byte(strings.TrimSuffix(before, "\n")), len(written)-1
			for _, old := range [][]byte{written[last], restored[last], []byte(before), cut} {
				texts := must.Get(compose([]byte(after), []byte(kubeletText), old, false))(t)
				check(knownLines(before, after, string(old)), old, texts)
			}
		}
	}
}

// TestWrites_Mixtures mixes the bytes before and after each write of a replacement, as a read at the same
// time may get them. No mixture has a line that neither the old nor the new text has, and all have a
// nameserver unless they mix the last two texts.
func TestWrites_Mixtures(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	replacements(t, func(known map[string]bool, old []byte, texts [][]byte) {
		file := old
		for i, next := range texts {
			for range 20 {
				mixture := slices.Clone(next)
				for at, chunk := 0, 1<<random.IntN(10); at < len(file); at += chunk {
					if random.IntN(2) == 0 {
						copy(mixture[at:min(at+chunk, len(file))], file[at:])
					}
				}
				if line := foreignLine(mixture, known); line != "" {
					t.Fatalf("during write %d: line %q\n%s", i+1, line, mixture)
				}
				if len(resolvconf.Parse(string(mixture)).Config().Nameservers) == 0 {
					t.Fatalf("during write %d: no nameserver\n%s", i+1, mixture)
				}
			}
			file = next
		}
	})
}

// TestWrites_Pieces reads a file in several parts, each from the old text or one of those that replace it,
// as a process does that is suspended between two reads. No line is one that neither text has.
func TestWrites_Pieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	replacements(t, func(known map[string]bool, old []byte, texts [][]byte) {
		states := append([][]byte{old}, texts...)
		for _, piece := range []int{248, 1024} {
			for range 50 {
				var text []byte
				for state := 0; ; {
					state += random.IntN(len(states) - state)
					rest := states[state][min(len(text), len(states[state])):]
					if len(rest) == 0 {
						break
					}
					text = append(text, rest[:min(piece, len(rest))]...)
				}
				if line := foreignLine(text, known); line != "" {
					t.Fatalf("reads of %d bytes: line %q\n%s", piece, line, text)
				}
			}
		}
	})
}

// replaceNext replaces the text by one of two.
func replaceNext(t *testing.T, f *File, i int) {
	old, err := f.Read()
	if err == nil {
		err = f.Replace(old, []string{firstDNS, otherDNS}[i%2], []byte(kubeletText))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWrites_Killed stops a replacement after each write. The text says that it is unfinished, has the text
// of the runtime and a nameserver, and is replaced by the next process.
func TestWrites_Killed(t *testing.T) {
	replacements(t, func(_ map[string]bool, _ []byte, texts [][]byte) {
		for i, text := range texts {
			want := Unfinished
			if i == len(texts)-1 {
				want = Written
			}
			original, ok := Original(text)
			if OriginOf(text) != want || (ok || i > 0) && string(original) != kubeletText || !bytes.Contains(text, []byte("nameserver ")) {
				t.Fatalf("after write %d: origin %v, want %v\n%s", i+1, OriginOf(text), want, text)
			}
			again, err := composeText(otherDNS, kubeletText, string(text))
			if err != nil || OriginOf(again) != Written || !parsesAs(again, otherDNS) {
				t.Fatalf("%v, the next process writes\n%s", err, again)
			}
		}
	})
}

// killedVariable has the path of the file that the test's second process replaces.
const killedVariable = "SANDBOXFILE_KILLED"

// TestReplace_Killed kills a process at each of the writes that replace a file. The next process completes
// the replacement.
func TestReplace_Killed(t *testing.T) {
	if path := os.Getenv(killedVariable); path != "" {
		runtime.LockOSThread() // strace counts the calls of each thread
		replaceNext(t, openFile(t, filepath.Dir(filepath.Dir(path)), path), 0)
		return
	}
	debian.Install(t, "strace", "strace")
	texts := must.Get(compose([]byte(firstDNS), []byte(kubeletText), []byte(kubeletText), false))(t)
	for written := range texts {
		directory := t.TempDir()
		path := newFile(t, directory, kubeletText)
		cmd := exec.Command("strace", "-f", "-o", "/dev/null", "-e", fmt.Sprintf("inject=pwrite64:signal=SIGKILL:when=%d", written+1),
			os.Args[0], "-test.run=^TestReplace_Killed$")
		cmd.Env = append(os.Environ(), killedVariable+"="+path)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("not killed:\n%s", out)
		}
		want := []byte(kubeletText)
		if written > 0 {
			want = texts[written-1]
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(text, want) {
			t.Errorf("%v, after %d writes the file has\n%s", err, written, text)
		}
		replaceNext(t, openFile(t, directory, path), 0)
		if text, err = os.ReadFile(path); err != nil || OriginOf(text) != Written || !parsesAs(text, firstDNS) {
			t.Errorf("%v, the next process has written\n%s", err, text)
		}
	}
}

// fileSystem is a kind of file system on which a runtime may keep its files.
type fileSystem struct {
	name, pkg string // the Debian package of mkfs; "": there is no disk
	size      int64  // of the smallest disk that mkfs accepts
	canFill   bool   // its size is limited, and space can be reserved
	hasFlags  bool   // chattr(1)
}

var fileSystems = []fileSystem{
	{"ext4", "e2fsprogs", 8 << 20, true, true},
	{"xfs", "xfsprogs", 320 << 20, true, true},
	{"btrfs", "btrfs-progs", 128 << 20, true, true}, // writes to new space, also where the old text was
	{"overlay", "", 0, true, false},
	{"ramfs", "", 0, false, false}, // has no fallocate(2)
}

// TestFileSystems replaces the text on real file systems: as always, with an owner and a mode of the
// runtime, while a pod protects the file, and while the disk is full.
func TestFileSystems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	for _, s := range fileSystems {
		t.Run(s.name, func(t *testing.T) {
			directory := s.mount(t)
			replaceAndCreate(t, directory)
			if s.hasFlags {
				replaceProtected(t, directory, "i")
				replaceProtected(t, directory, "a")
			}
			if s.canFill {
				replaceOnFullDisk(t, directory, kubeletText)
				replaceOnFullDisk(t, directory, "")
			}
		})
	}
}

// mount returns a directory with the file system.
func (s fileSystem) mount(t *testing.T) (directory string) {
	t.Helper()
	directory = t.TempDir()
	switch {
	case s.pkg != "":
		debian.Install(t, "mkfs."+s.name, s.pkg)
		disk := filepath.Join(t.TempDir(), "disk")
		must.Succeed(t, errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, s.size)))
		run(t, "mkfs."+s.name, "-q", disk)
		run(t, "mount", "-o", "loop", disk, directory)
	case s.name == "overlay":
		base := mountTmpfs(t, "4m")
		for _, name := range []string{"lower", "upper", "work"} {
			must.Succeed(t, os.Mkdir(filepath.Join(base, name), 0o755))
		}
		options := strings.ReplaceAll("lowerdir=BASE/lower,upperdir=BASE/upper,workdir=BASE/work", "BASE", base)
		run(t, "mount", "-t", s.name, s.name, "-o", options, directory)
	default:
		run(t, "mount", "-t", s.name, s.name, directory)
	}
	t.Cleanup(func() { run(t, "umount", directory) })
	return directory
}

func run(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

// replaceAndCreate replaces and restores the text of a file with an owner and a mode of its own, as
// CRI-O gives it to a pod with a user namespace, and creates it again after it was removed.
func replaceAndCreate(t *testing.T, directory string) {
	t.Helper()
	const owner, mode = 1 << 17, 0o640
	path := newFile(t, directory, kubeletText)
	must.Succeed(t, errors.Join(os.Chown(path, owner, owner), os.Chmod(path, mode)))
	f := openFile(t, directory, path)
	for i := range 4 {
		replaceNext(t, f, i)
	}
	old, err := f.Read()
	if err == nil {
		err = errors.Join(f.Restore(old, []byte(kubeletText)), f.Touch(), f.Close())
	}
	var s unix.Stat_t
	if err := errors.Join(err, unix.Stat(path, &s)); err != nil || s.Uid != owner || s.Gid != owner || s.Mode&0o7777 != mode {
		t.Errorf("%v, owner %d:%d, mode %o", err, s.Uid, s.Gid, s.Mode)
	}
	if text, err := os.ReadFile(path); err != nil || OriginOf(text) != Restored || !parsesAs(text, kubeletText) {
		t.Errorf("%v, the restored file:\n%s", err, text)
	}
	must.Succeed(t, os.Remove(path))
	f, err = Create([]string{directory}, sandbox, path)
	if err == nil {
		err = errors.Join(f.Replace(nil, firstDNS, []byte(kubeletText)), f.Close())
	}
	if text, readErr := os.ReadFile(path); errors.Join(err, readErr) != nil || !parsesAs(text, firstDNS) {
		t.Errorf("%v, the new file:\n%s", errors.Join(err, readErr), text)
	}
}

// replaceProtected sets an attribute of chattr(1) with which root cannot replace the text. It can be
// replaced when the attribute is gone.
func replaceProtected(t *testing.T, directory, attribute string) {
	t.Helper()
	path := newFile(t, directory, kubeletText)
	run(t, "chattr", "+"+attribute, path)
	_, err := Open([]string{directory}, sandbox, path)
	run(t, "chattr", "-"+attribute, path)
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("with the attribute %s: %v, want %v", attribute, err, unix.EPERM)
	}
	replaceNext(t, openFile(t, directory, path), 0)
}

// replaceOnFullDisk replaces the text of a file on a full disk: the file has the whole new text, or
// the old one if there is an error. With space on the disk it has the new one.
func replaceOnFullDisk(t *testing.T, directory, text string) {
	t.Helper()
	path := newFile(t, directory, text)
	f := openFile(t, directory, path)
	filled := fill(t, directory)
	err := f.Replace([]byte(text), firstDNS, []byte(kubeletText))
	got, readErr := os.ReadFile(path)
	switch {
	case readErr != nil:
		t.Fatal(readErr)
	case err == nil && OriginOf(got) != Written, err != nil && (!errors.Is(err, unix.ENOSPC) || string(got) != text):
		t.Errorf("%d bytes on a full disk: %v, the file has %q", len(text), err, got)
	}
	must.Succeed(t, os.RemoveAll(filled))
	replaceNext(t, f, 1)
}

// fill reserves all space below directory, and returns the directory that has it.
func fill(t *testing.T, directory string) (filled string) {
	t.Helper()
	filled = filepath.Join(directory, "filled")
	must.Succeed(t, os.Mkdir(filled, 0o755))
	size := int64(1 << 30)
	for n := 0; size > 0; n++ {
		f, err := os.Create(filepath.Join(filled, fmt.Sprint(n)))
		if err != nil {
			break // there is no space for an inode, either
		}
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
			size /= 2
		}
		f.Close()
	}
	return filled
}
