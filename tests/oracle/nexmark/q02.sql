select auction, price
from bid
where auction = 1007 or auction = 1020 or auction = 2001 or auction = 2019 or auction = 2087
