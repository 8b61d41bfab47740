package tombolo

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Constants that the package syscall lacks.
const (
	mfdCloexec       = 0x1
	mfdAllowSealing  = 0x2
	fAddSeals        = 1033
	fGetSeals        = 1034
	sealShrink       = 0x2
	sealGrow         = 0x4
	maxDescriptors   = 8
	maxPacketBytes   = 64 * 1024
	doorbellRegister = 12 // of the window's device, in bytes
)

// memfdNumber returns the syscall number of memfd_create.
func memfdNumber() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 319
	case "s390x":
		return 350
	case "386":
		return 356
	case "arm":
		return 385
	}
	// All newer ports of Linux share one table.
	return 279
}

// createSealed creates a memfd whose size is sealed.
func createSealed(bytes int) (int, error) {
	name, err := syscall.BytePtrFromString("tombolo-channel")
	if err != nil {
		return -1, err
	}
	number, _, errno := syscall.Syscall(memfdNumber(), uintptr(unsafe.Pointer(name)), mfdCloexec|mfdAllowSealing, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("memfd_create", errno)
	}
	fd := int(number)
	if err := syscall.Ftruncate(fd, int64(bytes)); err != nil {
		syscall.Close(fd)
		return -1, os.NewSyscallError("ftruncate", err)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, number, fAddSeals, sealShrink|sealGrow); errno != 0 {
		syscall.Close(fd)
		return -1, os.NewSyscallError("fcntl", errno)
	}
	return fd, nil
}

// isSealed reports whether a file is sealed against shrinking, so that no access to its mapping can fault.
func isSealed(fd int) bool {
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), fGetSeals, 0)
	return errno == 0 && seals&sealShrink != 0
}

// fileBytes returns the length of a file; 0 for a device.
func fileBytes(fd int) int64 {
	var stat syscall.Stat_t
	if syscall.Fstat(fd, &stat) != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return 0
	}
	return stat.Size
}

// mapWords maps a page-aligned part of a file as words.
func mapWords(fd int, offset int64, bytes int) ([]byte, []uint64, error) {
	mapping, err := syscall.Mmap(fd, offset, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	// Mappings are page-aligned, so the words are aligned.
	return mapping, unsafe.Slice((*uint64)(unsafe.Pointer(&mapping[0])), bytes/8), nil
}

// registerAt returns a register of a mapped device.
func registerAt(mapping []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&mapping[at])) }

// fds are descriptors that came with a message. close closes those that were not taken.
type fds []int

func (f fds) close() {
	for _, fd := range f {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

// take transfers the descriptor at an index to the caller; -1 if it did not arrive.
func (f fds) take(index int) int {
	if index >= len(f) {
		return -1
	}
	fd := f[index]
	f[index] = -1
	return fd
}

// receiveMessage receives the available bytes with their descriptors.
func receiveMessage(fd int, buffer []byte) (int, fds, error) {
	var space [128]byte
	for {
		bytes, oob, _, _, err := syscall.Recvmsg(fd, buffer, space[:], syscall.MSG_DONTWAIT|syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		return bytes, descriptors(space[:oob]), nil
	}
}

func descriptors(oob []byte) (all fds) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if rights, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, rights...)
		}
	}
	return all
}

// sendMessage sends a message with descriptors, without waiting.
func sendMessage(fd int, message []byte, descriptors []int) error {
	var oob []byte
	if len(descriptors) > 0 {
		oob = syscall.UnixRights(descriptors...)
	}
	for {
		_, err := syscall.SendmsgN(fd, message, oob, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		if err != syscall.EINTR {
			return err
		}
	}
}

// counterIncrement is the number 1 in native byte order, as written to an eventfd.
var counterIncrement = func() [8]byte {
	number := uint64(1)
	return *(*[8]byte)(unsafe.Pointer(&number))
}()
