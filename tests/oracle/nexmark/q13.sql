select b.auction, b.bidder, b.price, b.date_time, s.value
from bid b join side_input for system_time as of proctime() as s on mod(b.auction, 10000) = s.key
