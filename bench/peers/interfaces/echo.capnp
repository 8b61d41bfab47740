# What Cap'n Proto RPC is measured with, as interfaces/echo.tbl is for Tombolo.
@0xd2b8f4c1a7e90635;

interface Echo {
  # Nothing, there and back.
  null @0 ();

  # Data comes back as it is.
  echo @1 (data :Data) -> (data :Data);
}
